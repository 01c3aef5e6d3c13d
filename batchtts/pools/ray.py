"""Workers as actors of a Ray cluster: the same body and messages, other machines.

Ray gives places, transport and news of deaths, and nothing else: actors are never restarted and
calls never repeated, since the coordinator owns the retries. A worker is pinned to its node, so
each seat of the coordinator is a device of one node: when the node leaves, its seats are given up,
and a node that joins brings new ones. Messages of a worker are fetched by one call that waits for
them; there is never more than one on its way, so their order is theirs.

A worker that Ray lost sight of may in truth live on. It does no harm: the coordinator hears no more
of it, and what it still writes is the same file under the same name.
"""

import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from batchtts.devices import Slot, allocator_env
from batchtts.errors import DeviceError, UsageError
from batchtts.messages import Died
from batchtts.pools.actor import Actor
from batchtts.pools.base import Body

SEAT = "BATCHTTS_RAY_SEAT"
"""Variable of a slot's environment by which the pool finds the place of a worker."""
RECHECK_SECONDS = 10.0
"""How often it is looked for nodes that joined."""
KNOCK_SECONDS = 10.0
OBJECT_STORE_BYTES = 128 * 2**20
"""Of a Ray that is started here: only messages go through it."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a worker may run."""

    node: str
    """Ray's id of the node."""
    num_cpus: float
    num_gpus: float


@dataclass(slots=True)
class _Worker:
    actor: Any
    taking: Any
    """Reference of the call that waits for what it says."""
    sent: int = 0
    """Messages sent to it."""


class RayPool:
    """See `batchtts.pools.base.Pool`."""

    def __init__(self, body: Body, devices: str, shared: Path | None) -> None:
        """Connect to the cluster of RAY_ADDRESS, or start a Ray on this machine.

        Args:
            body: what a worker runs.
            devices: what each node gives: "cuda" its GPUs, "cuda,cuda" two workers on each of
                them, "cpu" its cores; "auto" is the GPUs, or the cores where there is no GPU.
            shared: a file that every node must see, or the output would be scattered; None: none.

        Raises:
            DeviceError: the cluster cannot be reached.
            UsageError: `devices` means nothing on a cluster.
        """
        names = devices.split(",")
        if devices not in ("auto", "cpu") and set(names) != {"cuda"}:
            message = (
                f"devices: {devices!r} means nothing with --pool ray, where each node gives what it "
                "has; valid are auto, cpu, cuda and, for two workers on each GPU, cuda,cuda"
            )
            raise UsageError(message)
        self._body = body
        self._kind = names[0]
        self._share = len(names)
        self._proof = (str(shared), shared.read_text(encoding="utf-8")) if shared else None
        self._owner = not ray.is_initialized()
        if self._owner:
            _connect()
        self._places: list[_Place] = []
        self._nodes: set[str] = set()
        self._checked = 0.0
        self._workers: dict[int, _Worker] = {}
        self._dead: list[tuple[int, object]] = []

    def joined(self) -> Sequence[Slot]:
        """The slots of nodes that came since the last call; now and then, since it takes a while.

        Raises:
            DeviceError: the first call finds nothing that was asked for.
        """
        now = time.monotonic()
        first = not self._checked
        if not first and now < self._checked + RECHECK_SECONDS:
            return ()
        self._checked = now
        nodes = [node for node in ray.nodes() if node["Alive"]]
        if self._kind == "auto":
            self._kind = "cuda" if any(node["Resources"].get("GPU") for node in nodes) else "cpu"
        found = [slot for node in nodes for slot in self._slots(node)]
        if first and not found:
            message = (
                f"none of the {len(nodes)} nodes of the Ray cluster gives a {self._kind} device"
            )
            raise DeviceError(message)
        return found

    def _slots(self, node: dict[str, Any]) -> list[Slot]:
        """The slots of a node that was not known."""
        if node["NodeID"] in self._nodes:
            return []
        self._nodes.add(node["NodeID"])
        cpus, gpus = (int(node["Resources"].get(kind, 0)) for kind in ("CPU", "GPU"))
        if self._kind == "cpu":
            names, place = range(cpus), _Place(node["NodeID"], num_cpus=1, num_gpus=0)
            device, threads, env = "cpu", 1, {"CUDA_VISIBLE_DEVICES": ""}
        else:  # which GPU it gets, Ray says to the worker
            names = range(gpus * self._share)
            place = _Place(node["NodeID"], num_cpus=0, num_gpus=1 / self._share)
            device, threads, env = "cuda:0", max(1, cpus // max(1, len(names))), allocator_env()
        self._places.append(place)
        env |= {"OMP_NUM_THREADS": str(threads), SEAT: str(len(self._places) - 1)}
        return [
            Slot(
                device=device,
                label=f"{node['NodeManagerAddress']}/{self._kind}{number}",
                env=env,
                threads=threads,
                share=self._share,
            )
            for number in names
        ]

    def start(self, worker: int, spec: object, environment: dict[str, str]) -> None:
        """See `batchtts.pools.base.Pool`."""
        place = self._places[int(environment[SEAT])]
        if not any(node["Alive"] for node in ray.nodes() if node["NodeID"] == place.node):
            self._dead.append((worker, Died("its node has left the cluster")))
            return
        options: dict[str, Any] = {
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": 2,  # one call waits in `take`
            "num_cpus": place.num_cpus,
            "num_gpus": place.num_gpus,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(place.node, soft=False),
            "runtime_env": {"env_vars": environment},
        }
        actor = ray.remote(Actor).options(**options).remote(self._body, spec, self._proof)
        self._workers[worker] = _Worker(actor, actor.take.remote())

    def send(self, worker: int, message: object) -> None:
        """See `batchtts.pools.base.Pool`."""
        if worker in self._workers:
            entry = self._workers[worker]
            entry.actor.put.remote(entry.sent, message)
            entry.sent += 1

    def poll(self, timeout: float) -> list[tuple[int, object]]:
        """See `batchtts.pools.base.Pool`."""
        heard, self._dead = self._dead, []
        numbers = {worker.taking: number for number, worker in self._workers.items()}
        if not numbers:
            time.sleep(0 if heard else timeout)
            return heard
        ready, _ = ray.wait(list(numbers), num_returns=1, timeout=0 if heard else timeout)
        if ready:
            ready, _ = ray.wait(list(numbers), num_returns=len(numbers), timeout=0)
        for reference in ready:
            number = numbers[reference]
            heard += ((number, message) for message in self._hear(number))
        return heard

    def _hear(self, number: int) -> list[object]:
        worker = self._workers[number]
        try:
            messages: list[object] = ray.get(worker.taking)
        except RayError as error:  # actor, node, network or the answer itself is lost
            messages = [_death(error)]
        if isinstance(messages[-1], Died):
            self._forget(number)
        else:
            worker.taking = worker.actor.take.remote()
        return messages

    def kill(self, worker: int) -> None:
        """See `batchtts.pools.base.Pool`."""
        if worker in self._workers:
            self._forget(worker)
            self._dead.append((worker, Died("killed")))

    def close(self) -> None:
        """See `batchtts.pools.base.Pool`."""
        for worker in list(self._workers):
            self._forget(worker)
        if self._owner:
            ray.shutdown()

    def _forget(self, number: int) -> None:
        """End an actor, also one that Ray thinks is out of reach: it may come back."""
        ray.kill(self._workers.pop(number).actor, no_restart=True)


def _connect() -> None:
    """Join the cluster of RAY_ADDRESS, or start one of this machine alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    address = os.environ.get("RAY_ADDRESS")
    handlers = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address:
            _knock(address)
            ray.init(address=address, **quiet)
        else:
            memory = OBJECT_STORE_BYTES
            ray.init("local", include_dashboard=False, object_store_memory=memory, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        where = f"the Ray cluster at RAY_ADDRESS={address} cannot be reached"
        message = f"{where if address else 'Ray cannot be started here'}: {error}"
        raise DeviceError(message) from error
    for kind, handler in handlers.items():  # Ray puts its own in their place
        signal.signal(kind, handler)


def _knock(address: str) -> None:
    """Ray itself would try for minutes, in silence.

    Raises:
        OSError: nobody listens there.
    """
    host, colon, port = address.rpartition(":")
    if colon and "/" not in host and port.isdecimal():
        socket.create_connection((host, int(port)), KNOCK_SECONDS).close()


def _death(error: RayError) -> Died:
    """What is known of the end of an actor, in a line that is the same for the same cause."""
    last = (str(error).strip().splitlines() or [""])[-1]
    cause = last.rpartition("Worker exit detail: ")[2].partition(" Some common causes")[0]
    return Died(
        f"lost ({type(error).__name__}): {cause.strip()}",
        out_of_memory=isinstance(error, OutOfMemoryError),
    )
