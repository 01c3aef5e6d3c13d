"""The output folder of a run: held by one run at a time, with a log of what happened in it."""

import contextlib
import itertools
import json
import logging
import os
import socket
import time
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from batchtts.errors import BatchttsError, LockedError, StorageError
from batchtts.times import now

LOCK = ".lock"
LOG = "run.log"
OLD_LOGS = 9
"""Logs of earlier runs that are kept: run.log.1 is the newest."""


class _LogFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's own name
        """A line that a full disk refuses is no reason to fail, or to print a traceback."""


class OutputFolder:
    """Holds the lock and writes run.log; a context manager around everything that writes.

    The lock is the kernel's: it frees itself when its holder dies, however that happens. The
    file stays behind, and says who held it last.
    """

    def __init__(self, path: Path) -> None:
        """`path` is the output folder, or that of a shard's own books under it."""
        self.path = path
        self._lock_path = path / LOCK
        self._log_path = path / LOG
        self._lock = FileLock(self._lock_path)
        self._handler: logging.Handler | None = None

    def __enter__(self) -> Self:
        """Take the folder.

        Raises:
            LockedError: another run holds it.
            StorageError: it cannot be made or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._write_holder()
            self._open_log()
        except Timeout:
            message = f"{self.path} is held by another run: {self._holder()}"
            raise LockedError(message) from None
        except OSError as error:
            message = f"the output folder {self.path} cannot be written: {error.strerror}"
            raise StorageError(message) from None
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _tb: object
    ) -> None:
        if error is not None:
            expected = isinstance(error, BatchttsError)
            logging.getLogger("batchtts").error(
                "ended by %s: %s", type(error).__name__, error, exc_info=not expected
            )
        if self._handler:
            logging.getLogger("batchtts").removeHandler(self._handler)
            with contextlib.suppress(OSError):  # the disk is full: that was told already
                self._handler.close()
        self._lock.release()

    def _write_holder(self) -> None:
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now()}
        self._lock_path.write_text(json.dumps(holder), encoding="utf-8")

    def _holder(self) -> str:
        try:
            holder = json.loads(self._lock_path.read_text(encoding="utf-8"))
            return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
        except (OSError, ValueError, KeyError):
            return "it does not say which"

    def _open_log(self) -> None:
        """Begin a new log; the earlier ones move up by one number."""
        logs = [self._log_path, *(Path(f"{self._log_path}.{n}") for n in range(1, OLD_LOGS + 1))]
        for newer, older in reversed(list(itertools.pairwise(logs))):
            if newer.exists():
                newer.replace(older)
        handler = _LogFile(self._log_path, encoding="utf-8", errors="backslashreplace")
        formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        formatter.converter = time.gmtime
        handler.setFormatter(formatter)
        logger = logging.getLogger("batchtts")
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        self._handler = handler
