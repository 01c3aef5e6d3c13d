"""Puts a voice on the worker's device and finds out how large its batches may be."""

import time
from collections.abc import Callable
from typing import Any

from batchtts import meters, models, probe
from batchtts.batching import AdaptiveLimit
from batchtts.data import BatchLimit
from batchtts.frontends import Frontends
from batchtts.infer import Loaded, Place
from batchtts.messages import Loading, Remark
from batchtts.models.base import Features, Model
from batchtts.prepare import Refused
from batchtts.probe_cache import ProbeKey
from batchtts.spec import WorkerSpec

FEW_SAMPLES = 8
"""Texts that tell how large the job is; the others are only prepared for a measurement."""


class Loader:
    """Loads models for `Infer`, on its thread."""

    def __init__(
        self, spec: WorkerSpec, frontends: Frontends, tell: Callable[[object], None]
    ) -> None:
        """`tell` sends a message to the coordinator."""
        self._spec = spec
        self._frontends = frontends
        self._tell = tell
        self._figures: dict[str, Any] = {"load_seconds": 0.0, "probe_seconds": 0.0}

    def figures(self) -> dict[str, Any]:
        """Seconds of loading and probing; precision and batch choice of the last voice."""
        return dict(self._figures)

    def load(self, place: Place) -> Loaded:
        """Load the model of a voice in a precision; "" is the run's own."""
        voice, precision = place
        self._tell(Loading(voice))
        started = time.monotonic()
        family, name = models.split(voice)
        adapter = models.adapter(family)
        device = self._spec.slot.device
        wanted = precision or self._spec.config.precision
        model = adapter.load(name, device, models.precision(adapter, device, wanted))
        loaded = time.monotonic()
        limit = self._limit(voice, model)
        self._figures["load_seconds"] += loaded - started
        self._figures["probe_seconds"] += time.monotonic() - loaded
        self._figures["precision"] = model.precision
        return Loaded(model, AdaptiveLimit(limit, self._spec.limit_scale))

    def _limit(self, voice: str, model: Model) -> BatchLimit:
        family, name = models.split(voice)
        slot = self._spec.slot
        samples = self._samples(voice, FEW_SAMPLES) or [model.dummy(min(100, model.max_size))]
        meter, clock = meters.for_device(slot.device, slot.share)
        found = probe.find_limit(
            model,
            samples,
            self._spec.config.batch,
            ProbeKey(
                adapter=family,
                fingerprint=models.adapter(family).voice(name).fingerprint,
                precision=model.precision,
                share=slot.share,
                threads=slot.threads,
            ),
            meter,
            clock,
            self._spec.cache,
            lambda text: self._tell(Remark(text)),
            job_size=self._spec.shares[voice] * sum(s.size for s in samples) // len(samples),
            more=lambda: self._samples(voice, len(self._spec.samples[voice])) or samples,
        )
        self._figures["batch_choice"] = found.choice
        self._tell(Remark(f"{voice}: {found.choice}"))
        return found.limit

    def _samples(self, voice: str, count: int) -> list[Features]:
        """Features of so many real texts of this run, the longest first and among them."""
        texts = self._spec.samples[voice]
        prepared = map(self._frontends.prepare, texts[:: max(1, len(texts) // count)])
        return [
            segment.features
            for segments in prepared
            if not isinstance(segments, Refused)
            for segment in segments
        ]
