"""The worker's end of a pool without pipes: its process is called from afar, by any machinery.

One call brings messages, one waits for what the worker has to say. `pools.ray` makes it an actor.
"""

import queue
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from batchtts.messages import Died, Failed
from batchtts.pools.base import Body

SHARED_SECONDS = 30.0
"""A network file system may show a new file this late on another machine."""
FAREWELL_SECONDS = 1.0
"""For the last words of a worker to be carried away before its process ends."""


@dataclass(frozen=True, slots=True)
class Line:
    """See `batchtts.pools.base.Channel`; the machinery ends the process when nobody listens."""

    inbox: "queue.SimpleQueue[object]"
    outbox: "queue.SimpleQueue[object]"

    def send(self, message: object) -> None:
        """See `batchtts.pools.base.Channel`."""
        self.outbox.put(message)
        if isinstance(message, Failed):  # the process ends at once, and only `take` carries it away
            time.sleep(FAREWELL_SECONDS)

    def recv(self) -> object:
        """See `batchtts.pools.base.Channel`."""
        return self.inbox.get()


class Actor:
    """The process of a worker: its body in a thread, and a call for each direction."""

    def __init__(self, body: Body, spec: object, proof: tuple[str, str] | None) -> None:
        self._inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._early: dict[int, object] = {}
        self._next = 0
        self._order = threading.Lock()
        threading.Thread(target=self._run, args=(body, spec, proof), daemon=True).start()

    def _run(self, body: Body, spec: object, proof: tuple[str, str] | None) -> None:
        if proof and not _is_shared(*proof):
            reason = (
                f"node {socket.gethostname()} does not see {proof[0]}: the output folder must be "
                "shared storage"
            )
            self._outbox.put(Failed(reason, kind="storage"))
            self._outbox.put(Died("it cannot write"))
            return
        try:
            body(Line(self._inbox, self._outbox), spec)
            self._outbox.put(Died("ended"))
        except Exception as error:  # noqa: BLE001  the coordinator must hear of it, whatever it is
            self._outbox.put(Died(f"{type(error).__name__}: {error}"))

    def put(self, number: int, message: object) -> None:
        """Take a message; calls may overtake each other."""
        with self._order:
            self._early[number] = message
            while self._next in self._early:
                self._inbox.put(self._early.pop(self._next))
                self._next += 1

    def take(self) -> list[object]:
        """Wait until the worker has something to say."""
        messages = [self._outbox.get()]
        while not self._outbox.empty():
            messages.append(self._outbox.get())
        return messages


def _is_shared(path: str, content: str) -> bool:
    end = time.monotonic() + SHARED_SECONDS
    while True:
        try:
            if Path(path).read_text(encoding="utf-8") == content:
                return True
        except OSError:
            pass
        if time.monotonic() > end:
            return False
        time.sleep(1)
