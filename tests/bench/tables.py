"""The result as Markdown: what README's Performance section is made from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MS = 1000
MIB = 2**20
KIB = 2**10

Cells = Sequence[object]


def render(result: Mapping[str, Any]) -> str:
    """All sections that were measured, in order."""
    sections = {
        "machine": _machine,
        "hibari": lambda found: _comparison("Default voice", found),
        "piper": lambda found: _comparison("Piper medium", found),
        "rates": _rates,
        "stages": lambda found: "\n".join(_stages(voice, result) for voice in found),
        "start": _start,
        "growth": _growth,
        "manifest": _manifest,
    }
    return "\n".join(draw(result[name]) for name, draw in sections.items() if name in result)


def table(head: Cells, rows: Iterable[Cells]) -> str:
    """A Markdown table; the first column holds names, the others figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def _machine(found: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    load = f"Load of the machine before: {found['load_before']}"
    return (
        f"# Benchmark of {found['started']}\n\n"
        f"{found['cpu']}, {found['cores']} cores, {found['system']}, Python {found['python']}\n\n"
        f"{versions}\n\nCommit {found['commit']}: `{found['command']}`\n\n{load}"
        f"{' (others were at work: only the ratios mean something)' if found['busy'] else ''}\n"
    )


def _comparison(title: str, found: Mapping[str, Any]) -> str:
    rows = [
        [
            entry["name"],
            _spread(entry["speed"], "{:.1f}"),
            _spread(entry["speed_per_core"], "{:.1f}"),
            _spread(entry["first_file"], "{:.1f}"),
            f"{entry['peak_bytes']['median'] / MIB:.0f}",
            f"**{_spread(entry['ratio'], '{:.2f}')}**",
        ]
        for entry in found["contenders"]
    ]
    head = [
        "end to end",
        "x real time",
        "x real time per core second",
        "first file, s",
        "largest process, MiB",
        f"ratio to {found['best_reference']}",
    ]
    count = f"{found['texts']} utterances, {found['rounds']} rounds in turns"
    return f"## {title}: {count}; median (least to most)\n\n{table(head, rows)}"


def _spread(found: Mapping[str, float], form: str) -> str:
    least, most = form.format(found["min"]), form.format(found["max"])
    return f"{form.format(found['median'])} ({least} to {most})"


def _rates(found: Mapping[str, Any]) -> str:
    rows = [
        [kind, *(f"{found[who][kind][shape]:.0f}" for who in found for shape in ("large", "model"))]
        for kind in found["alone"]
    ]
    head = ["products", "2048^3", "1024 x 256 x 1024", "2048^3, all cores", "small, all cores"]
    return f"## 1e9 operations a second, per core\n\n{table(head, rows)}"


def limit_seconds(
    operations: Iterable[Mapping[str, Any]], rates: Mapping[str, Mapping[str, float]]
) -> float:
    """What the counted operations would take if nothing else was done."""
    seconds = 0.0
    for entry in operations:
        seconds += entry["operations"] / (1e9 * max(rates[entry["kind"]].values()))
    return seconds


def _stages(found: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    texts, audio = found["texts"], found["audio_seconds"]
    alone, batches = (_milliseconds(found, way) for way in ("alone", "batches"))
    rest = _rest(result)
    names = sorted(alone | batches, key=lambda name: -batches.get(name, 0.0))
    rows: list[Cells] = [
        [name, f"{alone.get(name, 0.0):.2f}", f"{batches.get(name, 0.0):.2f}"] for name in names
    ]
    rows += [[name, f"{value:.2f}", f"{value:.2f}"] for name, value in rest.items()]
    sums = [sum(way.values()) + sum(rest.values()) for way in (alone, batches)]
    rows.append(["**all**", *(f"**{total:.2f}**" for total in sums)])
    head = ["core ms per utterance", "batches of 1", f"batches of {found['mean_batch']:.1f}"]
    lines = [
        f"## Where each millisecond goes: {_short(found['voice'])}, {found['precision']}",
        f"{texts} utterances of {audio / texts:.2f} s; {found['choice']}",
        table(head, rows),
    ]
    if "rates" in result:
        lines.append(_share_of_limit(found, result["rates"]["alone"]))
    return "\n\n".join(lines)


def _short(voice: str) -> str:
    family, _, name = voice.partition(":")
    return f"{family}:{name.rpartition('/')[2]}"


def _milliseconds(found: Mapping[str, Any], way: str) -> dict[str, float]:
    parts = {f"infer: {name}": seconds for name, seconds in found["parts"][way].items()}
    return {
        name: MS * seconds / found["texts"] for name, seconds in (found["around"] | parts).items()
    }


def _rest(result: Mapping[str, Any]) -> dict[str, float]:
    """What a run adds to the stages in its coordinator, by how its cost grows.

    It is the same for every voice, and clearest where the voice costs nothing.
    """
    for entry in result.get("growth", ()):
        if entry["voice"].startswith("fake:") and entry["fits"]:
            return {"coordination": MS * entry["fits"]["coordinator_cpu"]["each"]}
    return {}


def _share_of_limit(found: Mapping[str, Any], rates: Mapping[str, Mapping[str, float]]) -> str:
    audio = found["audio_seconds"]
    limit = limit_seconds(found["operations"], rates)
    by_kind: dict[str, float] = {}
    for entry in found["operations"]:
        by_kind[entry["kind"]] = by_kind.get(entry["kind"], 0.0) + entry["operations"]
    counted = ", ".join(f"{1e-9 * count / audio:.3f} in {kind}" for kind, count in by_kind.items())
    taken = found["infer"]["batches"]
    return (
        f"1e9 operations per second of audio: {counted}. At the measured rates these take "
        f"{MS * limit / audio:.1f} ms of {MS * taken / audio:.1f} ms: "
        f"{limit / taken:.0%} of the limit.\n"
    )


def _start(found: Mapping[str, Any]) -> str:
    steps = {
        "help": "`batchtts --help`, s",
        "help_cpu": "`batchtts --help`, core s",
        "workers_started": "command to workers started",
        "first_ready": "command to first model ready",
        "first_file": "command to first file",
        "last_file": "command to last file",
        "slots_idle_at_end": "idle time of a slot at the end, mean",
        "after_last_file": "last file to end of command",
        "wall": "whole command",
        "busy_share": "share of its life that a slot is busy",
    }
    rows = [[text, _spread(found[name], "{:.2f}")] for name, text in steps.items()]
    title = f"## Start and tail: {found['texts']} utterances, seconds"
    return f"{title}\n\n{table(['', 'median (least to most)'], rows)}"


def _growth(found: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            f"{_short(entry['voice'])}, {entry['slots']} slots, {run['utterances']}",
            f"{run['wall']:.1f}",
            f"{run['coordinator_cpu']:.1f}",
            f"{run['workers_cpu']:.1f}",
            f"{run['coordinator_peak'] / MIB:.0f}",
            f"{run['worker_peak'] / MIB:.0f}",
            f"{run['manifest_bytes'] / run['utterances']:.0f}",
        ]
        for entry in found
        for run in entry["runs"]
    ]
    head = [
        "utterances",
        "wall, s",
        "coordinator, core s",
        "workers, core s",
        "coordinator, MiB",
        "worker, MiB",
        "manifest, bytes each",
    ]
    fits = [
        [
            f"{_short(entry['voice'])}, {entry['slots']} slots",
            *(_fit(entry["fits"][name], MS, "ms") for name in ("coordinator_cpu", "workers_cpu")),
            *(_fit(entry["fits"][name], 1 / KIB, "KiB") for name in ("coordinator_peak",)),
        ]
        for entry in found
        if entry["fits"]
    ]
    fit_head = ["each utterance adds (bend)", "coordinator", "workers", "coordinator's memory"]
    note = (
        "A bend of 1 is a straight line; a quadratic term gives 10. What hides in the fixed part "
        "of the small runs shows as a bend of its own.\n"
    )
    return f"## Growth\n\n{table(head, rows)}\n{table(fit_head, fits)}\n{note}"


def _fit(fit: Mapping[str, float | None], scale: float, unit: str) -> str:
    bend = "" if fit["bend"] is None else f" ({fit['bend']:.2f})"
    return f"{scale * (fit['each'] or 0.0):.3g} {unit}{bend}"


def _manifest(found: Mapping[str, Any]) -> str:
    rows = [
        [name, *(f"{cost:.1f}" for cost in costs)] for name, costs in found["microseconds"].items()
    ]
    return f"## Manifest, microseconds a record\n\n{table(['records', *found['records']], rows)}"
