"""All errors that a user can meet, each with its exit code.

They stand together so that the table of exit codes in the README can be read off one file.
A message says what happened, where, and what to do, and lists the valid values.
"""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    """All done."""
    INTERNAL = 1
    """A fault of batchtts itself."""
    USAGE = 2
    """Bad usage, config or input; nothing was done."""
    FAILED_ROWS = 3
    """Finished, but some rows failed."""
    NO_DEVICE = 4
    """No device can work."""
    DEADLINE = 5
    """Stopped at the deadline; resumable."""
    LOCKED = 75
    """Another run holds this output folder."""
    SIGINT = 130
    """Stopped by SIGINT; resumable."""
    SIGTERM = 143
    """Stopped by SIGTERM; resumable."""


class BatchttsError(Exception):
    """Something a user can understand and mend; shown without a traceback."""

    exit_code: Exit = Exit.INTERNAL


class UsageError(BatchttsError):
    """A command was called with something that cannot work."""

    exit_code = Exit.USAGE


class ConfigError(UsageError):
    """The YAML file, or an option that overrides it, is wrong."""


class InputError(UsageError):
    """The file of texts is wrong; raised before any model loads."""


class VoiceError(UsageError):
    """A voice does not exist, or its files are not what they should be."""


class MissingExtraError(UsageError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'batchtts[{extra}]'")


class DeviceError(BatchttsError):
    """No device can do the work: none there, none free, or all given up."""

    exit_code = Exit.NO_DEVICE


class AudioError(BatchttsError):
    """An utterance's audio cannot be written as asked (not finite, say); its row fails."""


class StorageError(BatchttsError):
    """The output folder cannot be written, as when the disk is full; resumable."""


class IncompleteError(BatchttsError):
    """Shards of a run are missing or do not cover its input; run them and merge again."""

    exit_code = Exit.FAILED_ROWS


class LockedError(BatchttsError):
    """Another run holds the output folder."""

    exit_code = Exit.LOCKED


class StoppedError(BatchttsError):
    """A signal ended a run at once; resumable."""

    def __init__(self, signal: str, exit_code: Exit) -> None:
        super().__init__(f"stopped by {signal}; run the same command again to go on")
        self.exit_code = exit_code
