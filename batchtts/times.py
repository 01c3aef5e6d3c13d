"""Times as records and people have them."""

from datetime import UTC, datetime

MINUTE = 60


def now() -> str:
    """The time in UTC, ISO 8601 with a Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(seconds: float) -> str:
    """A duration as a person reads it: "4 s", "12 min 30 s", "3 h 05 min"."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < MINUTE * MINUTE:
        return f"{whole // MINUTE} min {whole % MINUTE:02} s"
    return f"{whole // MINUTE**2} h {whole // MINUTE % MINUTE:02} min"
