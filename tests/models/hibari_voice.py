"""The real hibari voice for the tests, loaded once."""

from functools import cache

from batchtts.models.base import Features, Item
from batchtts.models.hibari import adapter
from batchtts.models.hibari.frontend import HibariFrontend
from batchtts.models.hibari.model import HibariModel

TEXTS = (
    "Yes.",
    "Your table for two is booked for half past seven.",
    "In spring the river rises, the meadows turn green, and the children run down to the bridge.",
    "Good morning. How can we help you today?",
)


@cache
def frontend() -> HibariFrontend:
    made = adapter.frontend("heart")
    assert isinstance(made, HibariFrontend)
    return made


@cache
def model(precision: str = "fp32") -> HibariModel:
    made = adapter.load("heart", "cpu", precision)
    assert isinstance(made, HibariModel)
    return made


def prepare(text: str, seed: int = 0, speed: float = 1.0) -> Features:
    return frontend().prepare(Item(text=text, voice="heart", seed=seed, speed=speed))
