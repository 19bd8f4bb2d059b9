"""Keeps the output of transformers and the hub client off the screen: their bars, their warnings, their long errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress progress bars and warnings of transformers and retries of the hub client within the block."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    transformers_logging: Any = logging
    hub_logging: Any = hub
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    hub_verbosity = hub_logging.get_verbosity()
    hub_logging.set_verbosity(logging.ERROR)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        hub_logging.set_verbosity(hub_verbosity)
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def first_line(exc: BaseException) -> str:
    """Return what an exception says, in one line of at most 200 characters."""
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0][:200]
