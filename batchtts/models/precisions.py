"""In which precisions a voice of ours may speak, the best first; no torch here."""

from batchtts import host


def precisions(device: str) -> tuple[str, ...]:
    """For voices of which only the last part, from latent frames to sound, goes below fp32.

    Durations are rounded to whole frames: text and durations in less than fp32 would change the
    length of an utterance with its neighbours. bf16 leaves 40 dB against fp32 and as many words
    understood. On a CPU with tiles for it, it is 1.6 times (hibari) to twice (VITS) as fast, and
    many times slower on one without; on a GPU the more exact tf32 comes first.
    """
    if device != "cpu":
        return ("tf32", "fp32", "bf16")
    return ("bf16", "fp32") if host.has_bf16_tiles() else ("fp32", "bf16")
