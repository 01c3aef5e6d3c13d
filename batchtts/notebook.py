"""What `verify` has found out about files so far, so that it can be stopped and go on.

One JSON line a finding in DIR/verify.jsonl, under the checksum of the file's bytes: a file that is
spoken again is measured and heard again, a renamed one is not. A torn last line costs one finding.
"""

import json
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

FILE = "verify.jsonl"


class Notebook:
    """Findings by checksum; a context manager while findings are added."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._pages: dict[str, dict[str, Any]] = {}
        self._file: IO[str] | None = None
        self._load()

    def _load(self) -> None:
        try:
            with self._path.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    self._take(line)
        except FileNotFoundError:
            return

    def _take(self, line: str) -> None:
        try:
            crc32, name, value = json.loads(line)
        except (ValueError, TypeError):  # torn, or another program's
            return
        self._pages.setdefault(str(crc32), {})[str(name)] = value

    def __enter__(self) -> Self:
        self._file = self._path.open("a", encoding="utf-8")
        self._file.write("\n" if self._path.stat().st_size else "")  # ends a torn line
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        del kind, error
        if self._file:
            self._file.close()

    def get(self, crc32: str, name: str) -> Any:  # noqa: ANN401
        """A finding about the file with this checksum; None where there is none yet."""
        return self._pages.get(crc32, {}).get(name)

    def put(self, crc32: str, name: str, value: object) -> None:
        """Write a finding down; it survives the death of this process."""
        self._pages.setdefault(crc32, {})[name] = value
        if self._file:
            self._file.write(json.dumps([crc32, name, value], ensure_ascii=False) + "\n")
            self._file.flush()
