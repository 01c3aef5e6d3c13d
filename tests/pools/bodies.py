"""What the test workers do; imported by their processes, so nothing heavy here."""

import os
import signal
import struct
import time
from typing import Any


def echo(pipe: Any, spec: Any) -> None:
    """Says who it is, then repeats what it hears until that is "end"."""
    pipe.send(("ready", spec, os.getpid(), os.environ.get("SEAT")))
    for message in iter(pipe.recv, "end"):
        pipe.send(("heard", message))


def die_at_once(pipe: Any, spec: int) -> None:
    """Says `spec` words and kills itself before anybody can have read them all."""
    for number in range(spec):
        pipe.send(number)
    os.kill(os.getpid(), signal.SIGKILL)


def freeze_in_a_message(pipe: Any, spec: str) -> None:
    """Where `spec` is "freeze": begins a message and stops in the middle of it; else it echoes."""
    if spec != "freeze":
        echo(pipe, spec)
        return
    pipe.send("soon")
    os.write(pipe.fileno(), struct.pack("!i", 1000) + b"half")
    os.kill(os.getpid(), signal.SIGSTOP)


def deaf(pipe: Any, _spec: None) -> None:
    """Never reads."""
    pipe.send("ready")
    time.sleep(600)


def fail(_pipe: Any, spec: int) -> None:
    """Ends with an exit code."""
    raise SystemExit(spec)


def chatty(pipe: Any, _spec: None) -> None:
    """Prints, as libraries do."""
    print("a word from a library")  # noqa: T201
    pipe.send("printed")
