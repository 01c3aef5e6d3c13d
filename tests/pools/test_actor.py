"""A worker that is called from afar: order of messages, last words, and the shared folder."""

import queue
import socket
import time
from pathlib import Path

import pytest

from batchtts.messages import Died, Failed
from batchtts.pools import actor as actor_module
from batchtts.pools.actor import Actor, Line
from batchtts.pools.base import Channel


def echo(channel: Channel, spec: str) -> None:
    """Say what it is told, until told to end; "crash" is no word to say."""
    channel.send(f"hello {spec}")
    while (message := channel.recv()) != "end":
        if message == "crash":
            text = "no such word"
            raise ValueError(text)
        channel.send(message)


def take_all(actor: Actor) -> list[object]:
    """Everything up to the death."""
    heard: list[object] = []
    while not heard or not isinstance(heard[-1], Died):
        heard += actor.take()
    return heard


def test_messages_that_overtake_each_other_are_put_in_order() -> None:
    actor = Actor(echo, "you", None)
    for number, message in ((2, "c"), (0, "a"), (3, "end"), (1, "b")):
        actor.put(number, message)

    assert take_all(actor) == ["hello you", "a", "b", "c", Died("ended")]


def test_a_worker_that_fails_says_why() -> None:
    actor = Actor(echo, "you", None)
    actor.put(0, "crash")

    assert take_all(actor) == ["hello you", Died("ValueError: no such word")]


def test_a_node_that_does_not_see_the_folder_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor_module, "SHARED_SECONDS", 0.0)
    (tmp_path / "here").write_text("mine")

    assert take_all(Actor(echo, "", (str(tmp_path / "gone"), "mine")))[0] == Failed(
        f"node {socket.gethostname()} does not see {tmp_path / 'gone'}: "
        "the output folder must be shared storage",
        kind="storage",
    )
    assert isinstance(take_all(Actor(echo, "", (str(tmp_path / "here"), "other")))[0], Failed)
    actor = Actor(echo, "you", (str(tmp_path / "here"), "mine"))
    actor.put(0, "end")
    assert take_all(actor) == ["hello you", Died("ended")]


def test_a_last_word_is_carried_away_before_the_process_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actor_module, "FAREWELL_SECONDS", 0.2)
    line = Line(queue.SimpleQueue(), queue.SimpleQueue())
    started = time.monotonic()
    line.send("anything")
    at_once = time.monotonic() - started
    line.send(Failed("poisoned"))

    assert at_once < 0.2 <= time.monotonic() - started
