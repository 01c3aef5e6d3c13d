"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const rows = data.rows, total = rows.id.length, figures = data.figures;
const byId = (id) => document.getElementById(id);
const number = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/* Texts are anybody's: they only ever become text nodes. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function clock(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${number(seconds, seconds < 10 ? 1 : 0)} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${number(Math.floor(whole / 3600))} h ${String(Math.floor(whole / 60) % 60).padStart(2, "0")} min`;
}

const count = (state) => rows.status.reduce((sum, status) => sum + (status === state), 0);
const states = ["ok", "suspect", "failed", "skipped"].map((name) => [name, count(name)]);
const suspects = count("suspect");

/* Summary ------------------------------------------------------------------------------------- */

function tile(name, value, note = "", mood = "") {
  byId("tiles").append(
    make("div", { class: mood }, make("dt", {}, name), make("dd", {}, value), make("small", {}, note)));
}

function summarize() {
  const { ok, failed, skipped } = data.counts;
  tile("Rows", number(total), skipped ? `${number(skipped)} skipped` : "");
  tile("With audio", number(ok), "", ok === total ? "good" : "");
  tile("Failed", number(failed), failed ? "see the reasons below" : "none", failed ? "bad" : "");
  tile("Suspect", number(suspects), data.heard ? `${number(data.heard)} heard` : "by the cheap checks",
    suspects ? "warn" : "");
  tile("Audio", clock(data.audio_seconds), "all files");
  if (figures.speed) tile("Speed", `${number(figures.speed, 1)}x`, `real time, RTF ${number(figures.rtf, 4)}`);
  if (figures.wall_seconds) tile("Wall time", clock(figures.wall_seconds), "last run");
  if (figures.batches) tile("Padding", `${number(100 * figures.padding_share, 1)} %`, `in ${number(figures.batches)} batches`);
}

/* Clips --------------------------------------------------------------------------------------- */

function clip(item) {
  const head = make("div", { class: "head" }, make("b", {}, item.id),
    make("span", { class: "muted" }, `${number(item.duration, 2)} s`));
  const card = make("article", { class: "clip" }, head);
  const tags = item.why.map((why) => make("li", { class: "tag suspect" }, why));
  if (!tags.length) tags.push(make("li", { class: "tag ok" }, "good, by chance"));
  if (item.cer !== null) tags.push(make("li", { class: "tag" }, `CER ${number(100 * item.cer)} %`));
  if (item.mos && item.mos.overall) tags.push(make("li", { class: "tag" }, `MOS ${number(item.mos.overall, 2)}`));
  card.append(make("ul", {}, ...tags), picture(item), player(item), make("p", {}, item.text));
  if (item.heard !== null) {
    card.append(make("p", { class: "heard" }, make("span", {}, "heard: "), item.heard || "nothing"));
  }
  return card;
}

function picture(item) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 240 48");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `waveform of ${item.id}`);
  const shape = document.createElementNS(space, "polygon");
  shape.setAttribute("points", item.picture);
  shape.setAttribute("fill", "currentColor");
  svg.append(shape);
  return svg;
}

const address = (file) => [data.base, ...file.split("/").map(encodeURIComponent)].join("/");

function player(item) {
  return make("audio", { controls: "", preload: "none", src: item.audio || address(item.file), "aria-label": `audio of ${item.id}` });
}

function showClips() {
  const first = 12, more = byId("more-clips");
  const bad = data.clips.filter((item) => item.why.length).length;
  byId("doubtful-note").textContent = (suspects
    ? `${number(suspects)} suspect files; ${number(bad)} of them here, the worst first, `
    : "No file is suspect. ") + (bad < data.clips.length ? `${suspects ? "then" : "Here are"} some good ones by chance.` : "");
  byId("clips").append(...data.clips.slice(0, first).map(clip));
  for (const stray of data.strays) byId("clips").append(make("article", { class: "clip" }, make("p", {}, stray)));
  more.hidden = data.clips.length <= first;
  more.textContent = `Show ${data.clips.length - first} more`;
  more.addEventListener("click", () => {
    byId("clips").append(...data.clips.slice(first).map(clip));
    more.hidden = true;
  });
}

/* Charts -------------------------------------------------------------------------------------- */

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const drawn = [];

function plot(title, note, describe, config) {
  const canvas = make("canvas", { role: "img", "aria-label": `${title}: ${describe}` });
  byId("charts").append(make("div", { class: "card" }, make("h3", {}, title),
    make("p", { class: "muted" }, note), make("div", { class: "plot" }, canvas)));
  drawn.push([canvas, config, null]);
}

function draw() {
  for (const entry of drawn) {
    if (entry[2]) entry[2].destroy();
    entry[2] = new Chart(entry[0], entry[1]());
  }
}

function axes(x, y, more = {}) {
  const axis = (title, extra) => ({
    title: { display: true, text: title, color: color("--muted") },
    ticks: { color: color("--muted"), maxTicksLimit: 8 }, grid: { color: color("--line") },
    border: { color: color("--line") }, ...extra });
  return { x: axis(x, { grid: { display: false }, ...more.x }), y: axis(y, { beginAtZero: true, ...more.y }) };
}

function options(x, y, more = {}) {
  return {
    animation: false, maintainAspectRatio: false, responsive: true, parsing: false,
    scales: axes(x, y, more.scales),
    plugins: { legend: { display: Boolean(more.legend), labels: { color: color("--ink"), boxWidth: 12, usePointStyle: true } },
      tooltip: { callbacks: more.tooltip || {} } },
    ...more.rest };
}

function speedChart() {
  if (!data.speed.length) return;
  const points = data.speed.map(([x, y]) => ({ x, y }));
  const best = Math.max(...points.map((p) => p.y));
  plot("Speed over time", "Seconds of audio made in each second of the run.", `up to ${number(best, 1)} times real time`, () => ({
    type: "line",
    data: { datasets: [{ data: points, borderColor: color("--c1"), backgroundColor: color("--accent-soft"), fill: true,
      borderWidth: 2, pointRadius: 0, pointHitRadius: 8, stepped: "before" }] },
    options: options("minutes since the start", "x real time", { scales: { x: { type: "linear" } },
      tooltip: { title: () => "", label: (item) => `${number(item.parsed.y, 1)}x real time` } }) }));
}

function durationChart() {
  const outliers = [], others = [];
  for (let i = 0; i < total; i++) {
    if (rows.duration[i]) (rows.outlier[i] ? outliers : others).push(i);
  }
  if (!others.length) return;
  const step = Math.max(1, Math.ceil(others.length / 3000));
  /* Chart.js takes unparsed data as sorted. */
  const points = (places) => places.map((i) => ({ x: rows.length[i], y: rows.duration[i], i })).sort((a, b) => a.x - b.x);
  const kept = points(others.filter((_, at) => at % step === 0));
  const note = outliers.length ? `${number(outliers.length)} do not fit the others of their voice.` : "All fit the others of their voice.";
  plot("Duration against length of text", note + (step > 1 ? ` One of ${step} of the others is drawn.` : ""), note, () => ({
    type: "scatter",
    data: { datasets: [
      { label: "outlier", data: points(outliers.slice(0, 2000)), backgroundColor: color("--c2"), pointStyle: "rectRot", radius: 6 },
      { label: "other", data: kept, backgroundColor: color("--c1") + "66", radius: 2.5 }] },
    options: options("characters, as spoken", "seconds", { legend: outliers.length > 0,
      tooltip: { label: (item) => `${rows.id[item.raw.i]}: ${number(item.parsed.y, 2)} s, ${rows.text[item.raw.i].slice(0, 60)}` } }) }));
}

/* A few silent files would squeeze all others together: they share the first bar. */
function levelChart() {
  const levels = rows.level.filter((level) => level !== null).map(Math.round).sort((a, b) => a - b);
  if (!levels.length) return;
  const low = Math.max(levels[0], levels[Math.floor(levels.length / 20)] - 10), high = levels[levels.length - 1];
  const counts = new Array(high - low + 1).fill(0);
  for (const level of levels) counts[Math.max(0, level - low)] += 1;
  const labels = counts.map((_, at) => (at === 0 && levels[0] < low ? `≤ ${low}` : String(low + at)));
  const peak = labels[counts.indexOf(Math.max(...counts))];
  bars("Level", "Loudness of the files (RMS), one bar a decibel.", `most files at ${peak} dBFS`, labels, counts, "dBFS", "files");
}

function bars(title, note, describe, labels, counts, x, y) {
  plot(title, note, describe, () => ({
    type: "bar",
    data: { labels, datasets: [{ data: counts, backgroundColor: color("--c1"), borderRadius: 3, maxBarThickness: 36 }] },
    options: options(x, y, { rest: { parsing: true }, scales: { y: { ticks: { precision: 0, color: color("--muted") } } } }) }));
}

function batchChart() {
  const sizes = Object.entries(figures.batch_sizes || {}).sort((a, b) => a[0] - b[0]);
  if (!sizes.length) return;
  const ooms = figures.ooms ? `${number(figures.ooms)} batches ran out of memory and were split.` : "None ran out of memory.";
  bars("Batch sizes", `${figures.batch_choice ? `${figures.batch_choice}. ` : ""}${ooms}`, ooms,
    sizes.map(([size]) => size), sizes.map(([, times]) => times), "utterances in a batch", "batches");
}

const SHARES = [["busy", "busy", "--c1"], ["wait_prepare", "waiting for text", "--c2"], ["wait_write", "waiting for the disk", "--c5"],
  ["load", "loading", "--c4"], ["probe", "probing", "--c3"]];

function deviceChart() {
  const slots = Object.keys(figures.devices || {});
  if (!slots.length) return;
  const share = (slot, name) => 100 * (figures.devices[slot][name] || 0);
  const rest = (slot) => Math.max(0, 100 - SHARES.reduce((sum, [name]) => sum + share(slot, name), 0));
  const parts = SHARES.map(([name, label, tone]) => [label, tone, slots.map((slot) => share(slot, name))]);
  parts.push(["other", "--c6", slots.map(rest)]);
  const busy = slots.map((slot) => `${slot} ${number(share(slot, "busy"))} % busy`).join(", ");
  const restarts = figures.restarts ? ` Workers replaced: ${number(figures.restarts)}.` : "";
  plot("Device load", `What each device did with its time.${restarts}`, busy, () => ({
    type: "bar",
    data: { labels: slots, datasets: parts.filter(([, , values]) => values.some((value) => value > 0.05)).map(([label, tone, values]) =>
      ({ label, data: values, backgroundColor: color(tone), maxBarThickness: 30 })) },
    options: options("% of the time", "", { legend: true,
      tooltip: { label: (item) => `${item.dataset.label}: ${number(item.parsed.x, 1)} %` },
      rest: { indexAxis: "y", parsing: true },
      scales: { x: { stacked: true, max: 100, grid: { color: color("--line") } }, y: { stacked: true, title: { display: false }, grid: { display: false } } } }) }));
}

function reasonList() {
  if (!data.reasons.length) return;
  const items = data.reasons.map(([reason, times]) => make("li", {}, make("b", {}, number(times)), make("span", {}, reason)));
  byId("charts").append(make("div", { class: "card" }, make("h3", {}, "Why rows failed"), make("ul", { class: "reasons" }, ...items)));
}

/* Rows ---------------------------------------------------------------------------------------- */

const COLUMNS = [["id", "Id", ""], ["status", "State", ""], ["text", "Text", ""], ["duration", "Seconds", "number"],
  ["level", "dBFS", "number"], ["cer", "CER", "number"], ["attempts", "Tries", "number"], ["device", "Device", ""], ["note", "Note", ""]];
const PAGE = 50;
const table = { order: [], sort: null, down: false, page: 0, shown: new Set(states.map(([name]) => name)), needle: "" };
let haystack = null;

function headings() {
  const row = document.querySelector("#table thead tr");
  for (const [name, title, kind] of COLUMNS.filter(used)) {
    const button = make("button", { type: "button" }, title);
    const cell = make("th", { scope: "col", class: kind, "data-name": name, "aria-sort": "none" }, button);
    button.addEventListener("click", () => sortBy(name));
    row.append(cell);
  }
}

const used = ([name]) => ["id", "status", "text", "duration"].includes(name) ||
  rows[name].some((value) => value !== null && value !== "" && !(name === "attempts" && value <= 1));

function sortBy(name) {
  table.down = table.sort === name ? !table.down : ["cer", "attempts"].includes(name);
  table.sort = name;
  for (const cell of document.querySelectorAll("#table th")) {
    cell.setAttribute("aria-sort", cell.dataset.name !== name ? "none" : table.down ? "descending" : "ascending");
  }
  select();
}

/* One lower-case string a row, made once: a search is then a walk over strings. */
function search() {
  haystack ??= rows.id.map((id, i) => `${id}\n${rows.text[i]}\n${rows.note[i]}\n${rows.device[i]}`.toLowerCase());
  return haystack;
}

function select() {
  const hay = table.needle ? search() : null, order = [];
  for (let i = 0; i < total; i++) {
    if (table.shown.has(rows.status[i]) && (!hay || hay[i].includes(table.needle))) order.push(i);
  }
  if (table.sort) {
    const values = rows[table.sort], sign = table.down ? -1 : 1;
    const compare = (a, b) => {
      const one = values[a], two = values[b];
      if (one === two) return a - b;
      if (one === null || one === "") return 1;
      if (two === null || two === "") return -1;
      return one < two ? -sign : sign;
    };
    order.sort(compare);
  }
  table.order = order;
  table.page = 0;
  showPage();
}

function cell(name, i) {
  const value = rows[name][i];
  if (name === "status") return make("td", {}, make("span", { class: `tag ${value}` }, value));
  if (name === "id" && rows.file[i]) return make("td", { class: "id" }, make("a", { href: address(rows.file[i]) }, value));
  if (name === "duration") return make("td", { class: "number" }, value ? number(value, 2) : "");
  if (name === "level") return make("td", { class: "number" }, value === null ? "" : number(value, 1));
  if (name === "cer") return make("td", { class: "number" }, value === null ? "" : `${number(100 * value)} %`);
  const kind = name === "attempts" ? "number" : name;
  return make("td", { class: kind }, String(value));
}

function showPage() {
  const pages = Math.max(1, Math.ceil(table.order.length / PAGE));
  const columns = COLUMNS.filter(used), start = table.page * PAGE;
  document.querySelector("#table tbody").replaceChildren(...table.order.slice(start, start + PAGE).map(
    (i) => make("tr", {}, ...columns.map(([name]) => cell(name, i)))));
  byId("found").textContent = `${number(table.order.length)} of ${number(total)} rows`;
  byId("page").value = table.page + 1;
  byId("page").max = pages;
  byId("pages").textContent = number(pages);
  byId("previous").disabled = table.page === 0;
  byId("next").disabled = table.page >= pages - 1;
}

function turn(page) {
  const last = Math.max(0, Math.ceil(table.order.length / PAGE) - 1);
  table.page = Math.min(last, Math.max(0, Number.isFinite(page) ? page : 0));
  showPage();
}

function filters() {
  for (const [name, times] of states.filter(([, times]) => times)) {
    const box = make("input", { type: "checkbox", checked: "" });
    box.addEventListener("change", () => {
      table.shown[box.checked ? "add" : "delete"](name);
      select();
    });
    byId("states").append(make("label", {}, box, `${name} ${number(times)}`));
  }
  let waiting = 0;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { table.needle = event.target.value.trim().toLowerCase(); select(); }, 60);
  });
  byId("previous").addEventListener("click", () => turn(table.page - 1));
  byId("next").addEventListener("click", () => turn(table.page + 1));
  byId("page").addEventListener("change", (event) => turn(event.target.valueAsNumber - 1));
}

summarize();
showClips();
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
for (const chart of [speedChart, durationChart, levelChart, deviceChart, batchChart, reasonList]) chart();
draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
headings();
filters();
select();
