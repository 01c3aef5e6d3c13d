"""Actors as workers: order of messages, deaths, and nodes that come and go."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from batchtts import manifest, output, run
from batchtts.config import load_config
from batchtts.errors import Exit, UsageError
from batchtts.options import Options
from batchtts.pools.base import Channel
from batchtts.progress import screen_for

ray = pytest.importorskip("ray")
ray_pool = pytest.importorskip("batchtts.pools.ray")

ROWS = 400


def nothing(channel: Channel, spec: object) -> None:
    """A body that does not run."""
    raise AssertionError(channel, spec)


@pytest.mark.parametrize("devices", ["cpu,cpu", "cuda:0", "cuda,cpu"])
def test_devices_of_one_machine_mean_nothing(devices: str) -> None:
    with pytest.raises(UsageError, match="means nothing with --pool ray"):
        ray_pool.RayPool(nothing, devices, None)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A head without devices and two nodes of one core, all on this machine."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    sabotage = {"item_seconds": 0.04, "kill_once": str(tmp_path / "killed")}
    monkeypatch.setenv("BATCHTTS_FAKE", json.dumps(sabotage))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_actor_killed_node_gone_node_come(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_pool, "RECHECK_SECONDS", 1.0)
    source, out = tmp_path / "t.txt", tmp_path / "out"
    source.write_text("".join(f"This is the sentence number {n}.\n" for n in range(ROWS)))
    config = load_config(
        None, {"voice": "fake:tone", "devices": "cpu", "batch.size": 4, "output.layout": "flat"}
    )
    config = config.model_copy(update={"output": output.resolve(config.output)})
    screen = screen_for(Console(file=StringIO()), quiet=False)
    options = Options(pool="ray")
    with ThreadPoolExecutor(1) as executor:  # Ray adds nodes in the main thread only
        running = executor.submit(run.generate, str(source), config, out, options, screen)
        _wait_for_records(out, 100)
        cluster.remove_node(next(n for n in cluster.list_all_nodes() if not n.head), False)
        cluster.add_node(num_cpus=1)
        result = running.result()

    assert (tmp_path / "killed").exists()
    assert result.exit_code == Exit.OK
    assert result.restarts >= 1
    assert any(seat.startswith("2:") for seat in result.devices), "the node that joined worked"
    lines = (out / "manifest.jsonl").read_text().splitlines()
    assert len(lines) == len(manifest.read(out)) == ROWS
    assert len(list((out / "audio").iterdir())) == ROWS


def _wait_for_records(folder: Path, count: int) -> None:
    end = time.monotonic() + 120
    journal = folder / "manifest.jsonl"
    while not journal.exists() or journal.read_bytes().count(b"\n") < count:
        assert time.monotonic() < end
        time.sleep(0.1)
