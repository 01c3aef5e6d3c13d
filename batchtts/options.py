"""What the command line asks of a run beyond the config."""

from dataclasses import dataclass
from typing import Literal

from batchtts.shards import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Of one run."""

    limit: int | None = None
    """Only the first so many rows."""
    fresh: bool = False
    """Forget what earlier runs did."""
    retry_failed: bool = False
    """Speak rows again that failed before."""
    pool: Literal["local", "ray"] = "local"
    """Workers as processes of this machine, or as actors of a Ray cluster."""
    remote: str = ""
    """URL of the object store that the folder's files go to; "": they stay."""
    shard: Shard | None = None
    """The part of the input that this process speaks; None: all of it."""
