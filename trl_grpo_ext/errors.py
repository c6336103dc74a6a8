"""The errors this package raises. Every message says what was wrong, the value seen, and what to do."""


class ExtError(Exception):
    """Base class of every error raised by `trl_grpo_ext`."""


class ConfigError(ExtError, ValueError):
    """A recipe, an argument or a combination of arguments is wrong."""


class DataError(ExtError, ValueError):
    """A dataset is missing, unreadable, or lacks what the run needs."""


class StageError(ExtError, RuntimeError):
    """A pipeline stage failed while it ran."""


class UpstreamError(ExtError, RuntimeError):
    """An installed library moved a part this package relies on; the message names the part and the tested versions."""


class SandboxError(ExtError, RuntimeError):
    """The machinery that runs untrusted programs failed, or cannot isolate them as asked; no fault of the program."""
