"""What the probe found, for a person at a terminal."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from batchtts.memory import Point
from batchtts.probe import ProbeResult

MIB = 2**20
PLOT_WIDTH = 40


def render(result: ProbeResult) -> RenderableType:
    """A table of what was measured, a plot of speed over batch, the fit and the choice."""
    parts: list[RenderableType] = []
    if result.points:
        parts += [_table(result), _Plot(result), Text(_memory(result))]
    parts += [Text(f"note: {note}") for note in result.notes]
    source = " (from the cache)" if result.from_cache else ""
    return Group(*parts, Text(f"choice{source}: {result.choice}"))


def _table(result: ProbeResult) -> Table:
    table = Table(title=escape(f"batches on {result.device}"), title_justify="left")
    table.add_column("stage")
    for name in ("batch", "longest", "ms", "audio s/s", "vs 1", "peak MiB", "reserved MiB"):
        table.add_column(name, justify="right")
    knees = [point for point in result.points if point.stage == "knee"]
    for point in result.points:
        gain = f"{point.speed / knees[0].speed:.1f}x" if point in knees else ""
        table.add_row(
            point.stage,
            str(point.items),
            str(point.longest),
            "out of memory" if point.oom else f"{1000 * point.seconds:.1f}",
            "" if point.oom else f"{point.speed:.0f}",
            gain,
            f"{point.peak / MIB:.0f}",
            f"{point.reserved / MIB:.0f}",
            style="bold" if point == result.knee else "",
        )
    return table


def _memory(result: ProbeResult) -> str:
    fit = result.limit.memory
    if fit is None:
        return "memory: not measured"
    if result.memory_limit is None:
        takes = "roughly, since a process keeps what it freed"
    else:
        takes = f"takes {result.memory_limit} of the longest text ({result.longest} units)"
    return (
        f"memory: {fit.base / MIB:.0f} MiB + {fit.linear / 1024:.1f} KiB per unit + "
        f"{fit.quadratic:.2g} B per squared unit, budget {fit.budget / MIB:.0f} MiB: {takes}"
    )


class _Plot:
    """Speed over batch as bars; plain signs where the terminal knows no others."""

    def __init__(self, result: ProbeResult) -> None:
        self._knee = result.knee
        self._points = [point for point in result.points if point.stage == "knee"]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[Text]:
        sign = "#" if options.ascii_only else "█"
        best = max((point.speed for point in self._points), default=0.0)
        for point in self._points:
            yield Text(self._bar(point, best, sign), no_wrap=True)

    def _bar(self, point: Point, best: float, sign: str) -> str:
        length = round(PLOT_WIDTH * point.speed / best) if best else 0
        mark = "  <- chosen" if point == self._knee else ""
        return f"{point.items:>6} {sign * length} {point.speed:.0f}x{mark}"
