"""`batchtts` in this process, which then tells what it took itself and what its workers took.

    python -m tests.bench.metered generate texts.txt -o out

prints JSON; a process of its own for the benchmark.
"""

import json
import os
import resource
import sys
from pathlib import Path

from batchtts.cli import main


def _taken(who: int) -> dict[str, float]:
    usage = resource.getrusage(who)
    return {"cpu": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}


if __name__ == "__main__":
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    # The peak that `getrusage` knows is inherited from whoever started this process.
    status = Path("/proc/self/status").read_text("ascii")
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    answer = {
        "coordinator": {**_taken(resource.RUSAGE_SELF), "peak_bytes": int(peak) * 1024},
        "workers": _taken(resource.RUSAGE_CHILDREN),
    }
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)
