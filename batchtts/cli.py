"""The command line: one thin function a command, parse -> call -> render.

Nothing heavy is imported here: `batchtts --help` must be instant, so commands import their own.
"""

import dataclasses
import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from batchtts.errors import BatchttsError, Exit, UsageError

app = typer.Typer(
    help="Turn a file of sentences into a folder of speech: batched, on every device, unattended.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever read our output has gone; the work goes on."""
        self.quiet = True


# emoji=False: "hibari:heart:" must not become a picture.
out = _Console(soft_wrap=True, highlight=False, emoji=False)
err = _Console(stderr=True, highlight=False, emoji=False)

Input = Annotated[
    str, typer.Argument(help="Texts: .txt .csv .tsv .psv .jsonl .xlsx, or - for standard input.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file; see configs/ for examples.")
]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="Output folder, or s3://, gs://, az://...")
]
Devices = Annotated[
    str | None, typer.Option(help='"auto", or a list such as cuda:0,cuda:2 or cpu,cpu.')
]
BatchSize = Annotated[
    str | None, typer.Option(help='Utterances in a batch, or "auto" to measure the device.')
]
VoiceName = Annotated[str | None, typer.Option(help="Voice, such as hibari:heart.")]
Precision = Annotated[str | None, typer.Option(help="auto, fp32, tf32, bf16 or fp16.")]
Probe = Annotated[
    str | None, typer.Option(help="How the batch size is found: off, memory, full or force.")
]
Folder = Annotated[Path, typer.Argument(help="Output folder of a run.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first so many rows.")]
ShardName = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Speak only this part of the input: 0/4 to 3/4. Without it, RANK of torchrun and "
        "SLURM_ARRAY_TASK_ID count; 0/1 is all of it.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def generate(
    source: Input,
    config: ConfigFile = None,
    output: Output = None,
    devices: Devices = None,
    batch_size: BatchSize = None,
    voice: VoiceName = None,
    precision: Precision = None,
    limit: Limit = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what earlier runs did.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Speak rows again that failed before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what a run would do.")
    ] = False,
    deadline: Annotated[
        str | None, typer.Option(help="Stop by then, resumable: 07:00, 6h, 90m.")
    ] = None,
    probe: Probe = None,
    shard: ShardName = None,
    pool: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where workers run: this machine, or a Ray cluster (RAY_ADDRESS)."),
    ] = "local",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
) -> None:
    """Speak a whole file into a folder.

    Example: batchtts generate texts.csv --output out
    """
    from batchtts import places, preview, run, shards, summary
    from batchtts.agenda import as_file
    from batchtts.options import Options
    from batchtts.progress import screen_for

    overrides = {
        "devices": devices,
        "batch.size": _number(batch_size),
        "batch.probe": probe,
        "voice": voice,
        "precision": precision,
        "deadline": deadline,
    }
    settings = _settings(config, overrides)
    target = output or settings.output.dir or _default_folder(source)
    folder, remote = places.split(target)
    part = shards.from_environment(shard, os.environ)
    options = Options(
        limit=limit,
        fresh=fresh,
        retry_failed=retry_failed,
        shard=part,
        pool=pool,
        remote=remote,
    )
    with as_file(source) as texts:
        screen = screen_for(err, quiet=quiet)
        if dry_run:
            err.print(preview.render(preview.preview(texts, settings, folder, options, screen.say)))
            return
        result = run.generate(texts, settings, folder, options, screen)
    if not quiet:
        err.print(summary.render(result, target))
    raise typer.Exit(result.exit_code)


@app.command("probe-batch-size")
def probe_batch_size(
    source: Annotated[str | None, typer.Argument(help="Texts to measure with; or none.")] = None,
    config: ConfigFile = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda:0, ...")] = None,
    voice: VoiceName = None,
    precision: Precision = None,
    probe: Probe = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Measure how large a batch should be on a device, and keep the answer for later runs.

    Example: batchtts probe-batch-size texts.csv
    """
    from batchtts import probe_table, solo
    from batchtts.agenda import as_file

    overrides = {"devices": device, "voice": voice, "precision": precision, "batch.probe": probe}
    settings = _settings(config, overrides)
    note = _note(quiet=as_json)
    loaded = solo.load(settings)
    if source is None:
        features = list(solo.typical(loaded.model))
    else:
        with as_file(source) as texts:
            segments = solo.segments_of(texts, loaded, settings, limit, note)
        features = [segment.features for segment in segments]
    found = solo.find_limit(loaded, features, settings, note)
    split = solo.find_split(loaded, features, settings, note)
    if as_json:
        out.print_json(data={**found.as_dict(), "cpu_split": split and dataclasses.asdict(split)})
        return
    out.print(probe_table.render(found))
    if split:
        out.print(f"CPU: {split.processes} processes x {split.threads} threads are the fastest")


@app.command()
def bench(
    source: Input,
    config: ConfigFile = None,
    devices: Devices = None,
    batch_size: BatchSize = None,
    voice: VoiceName = None,
    precision: Precision = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Measure what batches gain over one text at a time, with your own texts.

    Example: batchtts bench texts.csv --limit 64
    """
    from batchtts import bench as benchmark
    from batchtts import solo
    from batchtts.agenda import as_file

    overrides = {
        "devices": devices,
        "batch.size": _number(batch_size),
        "voice": voice,
        "precision": precision,
    }
    settings = _settings(config, overrides)
    with as_file(source) as texts:
        result = solo.bench(texts, settings, limit, _note(quiet=as_json))
    if as_json:
        out.print_json(data=result.as_dict())
    else:
        out.print(benchmark.render(result))


@app.command()
def say(
    text: Annotated[str, typer.Argument(help="What to say.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The audio file.")],
    config: ConfigFile = None,
    voice: VoiceName = None,
    devices: Devices = None,
) -> None:
    """Speak one text into a file.

    Example: batchtts say "Good morning." --output morning.wav
    """
    from batchtts import solo

    overrides = {"voice": voice, "devices": devices, "output.format": output.suffix[1:] or None}
    written = solo.say(text, _settings(config, overrides), output)
    err.print(f"{output}: {written.duration:.2f} s, {written.sample_rate} Hz", soft_wrap=True)


@app.command()
def voices() -> None:
    """List what can speak.

    Example: batchtts voices
    """
    from rich.table import Table

    from batchtts import models

    table = Table(box=None, pad_edge=False)
    for heading in ("voice", "language", "Hz", "licence", "description"):
        table.add_column(heading, overflow="fold")
    for family in sorted(models.table()):
        try:
            adapter = models.adapter(family)
            found = adapter.voices()
        except (BatchttsError, ImportError) as error:
            table.add_row(family, "", "", "", escape(f"not usable: {error}"))
            continue
        for name, info in found.items():
            languages = ", ".join(info.languages) or "any"
            cells = (f"{family}:{name}", languages, str(info.sample_rate), info.license)
            table.add_row(*map(escape, cells), escape(info.description))
    out.print(table)


@app.command()
def merge(
    target: Annotated[str, typer.Argument(help="The output folder, or URL, of all the shards.")],
) -> None:
    """Make one manifest of the shards of a run, and prove that they cover its input.

    Example: batchtts merge out
    """
    from batchtts import merge as stage
    from batchtts import places, summary

    merged = stage.merge(places.to_merge(target, lambda text: err.print(escape(text))))
    err.print(summary.render(merged, target))
    raise typer.Exit(merged.exit_code)


@app.command()
def doctor(voice: VoiceName = None) -> None:
    """Tell what this machine has and what it lacks.

    Example: batchtts doctor
    """
    from batchtts import doctor as examination
    from batchtts.config import Config

    findings = list(examination.examine(voice or Config().voice))
    for finding in findings:
        out.print(escape(f"{finding.state:8} {finding.name}: {finding.text}"))
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(Exit.NO_DEVICE)


@app.command()
def verify(
    folder: Folder,
    asr: Annotated[bool, typer.Option("--asr", help="Hear the files with a recogniser.")] = False,
    asr_model: Annotated[
        Path | None, typer.Option(help="Folder of a faster-whisper model, for --asr.")
    ] = None,
    mos: Annotated[bool, typer.Option("--mos", help="Score how they sound (DNSMOS).")] = False,
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many files.")] = None,
    as_json: Json = False,
) -> None:
    """Check every file of an output folder against its manifest, and by ear where asked.

    Example: batchtts verify out --asr
    """
    from batchtts import verify as check
    from batchtts.asr import AsrChoice

    choice = AsrChoice(model=asr_model) if asr or asr_model else None
    result = check.verify(folder, asr=choice, mos=mos, sample=sample, log=_note(quiet=as_json))
    if as_json:
        out.print_json(data=result.as_dict())
    else:
        out.print(check.render(result))
    raise typer.Exit(result.exit_code)


@app.command()
def report(
    folder: Folder,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page; DIR/report.html by default.")
    ] = None,
) -> None:
    """Write one HTML page to look at a run and to listen to what is doubtful.

    Example: batchtts report out
    """
    from batchtts.report import write_html

    err.print(escape(f"{write_html(folder, output)} written"), soft_wrap=True)


@app.command()
def status(folder: Folder, as_json: Json = False) -> None:
    """Tell how a running or finished run stands, from another terminal.

    Example: batchtts status out
    """
    from batchtts import status as state

    found = state.status(folder)
    if as_json:
        out.print_json(data=found.as_dict())
    else:
        out.print(state.render(found))


@app.command()
def export(
    folder: Folder,
    to: Annotated[str, typer.Option(help="hf, nemo, lhotse, ljspeech, webdataset or parquet.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File or folder to write.")],
) -> None:
    """Write an output folder in the form that other tools read.

    Example: batchtts export out --to nemo --output out-nemo.jsonl
    """
    from batchtts import exports

    exports.export(folder, to, output)
    err.print(escape(f"{output} written"), soft_wrap=True)


def _settings(path: Path | None, overrides: dict[str, Any]) -> Any:  # noqa: ANN401
    """The config with the command line's options over it, and its output settings resolved."""
    from batchtts import output
    from batchtts.config import load_config

    given = {key: value for key, value in overrides.items() if value is not None}
    config = load_config(path, given)
    return config.model_copy(update={"output": output.resolve(config.output)})


def _note(*, quiet: bool) -> Callable[[str], None]:
    """Where remarks go while a command works."""
    return lambda text: None if quiet else err.print(escape(text), soft_wrap=True)


def _number(text: str | None) -> int | str | None:
    """A batch size as the config has it."""
    return int(text) if text is not None and text.isdigit() else text


def _default_folder(source: str) -> str:
    if source == "-":
        message = "standard input has no name to call the output folder by: add --output DIR"
        raise UsageError(message)
    return f"{Path(source).stem}-speech"


def main() -> None:
    """Run a command; every error ends in one or two lines and its exit code."""
    _open_streams()
    _speak_utf8()
    logging.getLogger("batchtts").addHandler(logging.NullHandler())
    try:
        app(standalone_mode=True)
    except BatchttsError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Exit.SIGINT)
    except Exception as error:  # noqa: BLE001  a user is never shown a traceback
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        err.print(f"[bold red]internal error:[/] {escape(text)}", soft_wrap=True)
        if os.environ.get("BATCHTTS_DEBUG"):
            traceback.print_exc()
        else:
            err.print("This is a fault of batchtts; BATCHTTS_DEBUG=1 shows more.", soft_wrap=True)
        sys.exit(Exit.INTERNAL)


def _open_streams() -> None:
    """A closed standard stream would lend its number to the next file or pipe that is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number


def _speak_utf8() -> None:
    """Under cron the locale is often C: paths, files and output are UTF-8 all the same."""
    if sys.getfilesystemencoding() != "utf-8" and not os.environ.get("BATCHTTS_UTF8"):
        os.environ.update(PYTHONUTF8="1", BATCHTTS_UTF8="1")
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
