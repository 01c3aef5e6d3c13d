"""The contract between the coordinator and what starts workers; knows nothing of speech."""

from collections.abc import Callable
from typing import Any, Protocol


class Channel(Protocol):
    """A worker's end of its line to the coordinator."""

    def send(self, message: object) -> None:
        """Send one message; called from one thread at a time."""
        ...

    def recv(self) -> object:
        """Wait for the next message.

        Raises:
            EOFError: the coordinator is gone.
        """
        ...


Body = Callable[[Channel, Any], None]
"""What runs in a worker process: a top-level function of the channel and the worker's own spec."""


class Pool(Protocol):
    """Starts workers, carries messages, and tells of deaths."""

    def start(self, worker: int, spec: object, environment: dict[str, str]) -> None:
        """Start a worker under this number, with these environment variables and spec."""
        ...

    def send(self, worker: int, message: object) -> None:
        """Send a message and return at once; to a dead worker it is lost, and `Died` follows."""
        ...

    def poll(self, timeout: float) -> list[tuple[int, object]]:
        """Wait up to `timeout` seconds for messages, oldest first for each worker.

        A worker's end is the message `Died`, after everything that it had sent; a started worker
        number appears in no message after its `Died`.
        """
        ...

    def kill(self, worker: int) -> None:
        """End a worker at once; `Died` follows."""
        ...

    def close(self) -> None:
        """Kill what still runs and free everything."""
        ...
