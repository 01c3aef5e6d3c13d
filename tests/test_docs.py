"""The README is true: its commands run, its options exist, its files are there, its tables are whole."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from batchtts.cli import app
from batchtts.errors import Exit
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
SHOWN = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]
MENTIONED = re.findall(r"batchtts ([a-z-]+)((?: [^`\n|]*)?)", README)


def options_of(command: str) -> set[str]:
    found = {
        opt for param in COMMANDS[command].params for opt in (*param.opts, *param.secondary_opts)
    }
    return found | {"--help"}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_documented_and_has_an_example(command: str) -> None:
    assert f"`batchtts {command}" in README
    assert f"Example: batchtts {command}" in COMMANDS[command].help


def test_every_command_and_option_in_the_readme_exists() -> None:
    for block in re.findall(r"```(?:sh|console|ini|yaml)\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            match = re.search(r"\bbatchtts ([a-z][a-z-]+)(.*)", line)
            if not match or match[1] not in COMMANDS:
                continue
            for option in re.findall(r"(?<![\w-])--[a-z-]+", match[2]):
                assert option in options_of(match[1]), line
    for command, _ in MENTIONED:
        assert command in COMMANDS or not re.search(f"`batchtts {command}", README), command
    listed = re.search(r"Options of `generate`:(.*?)\n\n", README, re.DOTALL)
    assert listed is not None
    named = set(re.findall(r"`(--[a-z-]+)`", listed[1]))
    assert named == {o for o in options_of("generate") if o.startswith("--")} - {"--help"}


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_exit_codes_are_all_there() -> None:
    table = re.search(r"## Exit codes\n(.*?)\n## ", README, re.DOTALL)
    assert table is not None
    codes = {
        int(code)
        for code in re.findall(r"^\| ([\d, ]+) \|", table[1], re.MULTILINE)
        for code in code.split(",")
    }
    assert codes == {int(code) for code in Exit}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    (folder / "configs").symlink_to(ROOT / "configs")
    (folder / "texts.csv").write_text(
        "id,text\na,Good morning.\nb,How are you?\n", encoding="utf-8"
    )
    return folder


def test_every_shown_command_runs(desk: Path) -> None:
    assert len(SHOWN) > 10
    for line in SHOWN:
        command = line.replace("batchtts", f"{shlex.quote(sys.executable)} -m batchtts")
        done = subprocess.run(
            ["bash", "-c", command],
            check=False,
            cwd=desk,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
