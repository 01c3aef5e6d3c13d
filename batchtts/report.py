"""`batchtts report`: one HTML file to look at a run and to listen to what is doubtful.

Everything is inside: style, script, charts (Chart.js, see page/chart.LICENSE.md), data and audio.
It opens from the disk, without a network.
"""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from batchtts.errors import StorageError
from batchtts.reportdata import gather

FILE = "report.html"
PAGE = Path(__file__).parent / "page"
"""Template, style, script and the vendored chart library."""
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Texts are anybody's: none of them may end the script element that holds the data."""


def write_html(folder: Path, out: Path | None = None) -> Path:
    """Write the report of an output folder.

    Args:
        folder: an output folder with its manifest.
        out: the file to write; None: report.html in the folder.

    Returns:
        the file.

    Raises:
        UsageError: the folder has no manifest.
        StorageError: the file cannot be written.
    """
    path = out or folder / FILE
    data = gather(folder)
    # Rows without audio in the page are linked, from wherever the page lies.
    data["base"] = quote(Path(os.path.relpath(folder, path.parent)).as_posix())
    try:
        path.write_text(render(data), encoding="utf-8")
    except OSError as error:
        message = f"the report {path} cannot be written: {error.strerror}"
        raise StorageError(message) from error
    return path


def render(data: dict[str, Any]) -> str:
    """The page around its data."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined
    )
    chart = (PAGE / "chart.js").read_text(encoding="utf-8")
    return environment.get_template("report.html").render(
        data=data,
        json=Markup(as_island(data)),  # escaped for its script element
        style=Markup((PAGE / "report.css").read_text(encoding="utf-8")),
        script=Markup((PAGE / "report.js").read_text(encoding="utf-8")),
        chart=Markup(chart.partition("//# sourceMappingURL")[0]),
    )


def as_island(data: dict[str, Any]) -> str:
    """JSON that is safe inside a script element, whatever its texts hold."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in UNSAFE.items():
        text = text.replace(character, escape)
    return text.encode("utf-8", "backslashreplace").decode()
