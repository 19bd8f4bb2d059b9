"""The tree of all exceptions that this package raises deliberately.

    LDAgentError                    base class; the command line prints its message in one line, exit code 1
    ├── ConfigError                 an unknown key, a value out of range, a file that is not YAML
    ├── InputError                  a text, time or speaker given by the caller
    │   └── DataFileError           a record of an input file; names file and line
    ├── ModelError                  a model, tokenizer or adapter cannot be found, verified or loaded
    ├── BackboneError               a loaded model or an endpoint failed to answer
    └── StoreError                  the memory file cannot be opened, read or written
        ├── RepeatedRowError        a row to be imported has the identity of one that is stored
        ├── EncoderMismatchError    the vectors are from another encoder; run `ld-agent memory reindex`
        └── ConversationBusyError   two callers use one Conversation at the same time

`ReplyStopped` is none of them: a listener raises it to end the reply that it hears, which is no failure.

A message states in one line what went wrong, with which value, and how to fix it. Foreign exceptions are mapped where
they enter, with ``from exc``; none of these is silently dropped.
"""

from __future__ import annotations


class LDAgentError(Exception):
    """Base class of all exceptions that the package raises deliberately."""


class ReplyStopped(BaseException):
    """Raised in ``on_text`` to end the reply; what was generated so far is kept as the reply. Like asyncio's cancellation it is
    not an `Exception`, so that nothing on its way takes it for a failure of the model."""


class ConfigError(LDAgentError):
    """A configuration that cannot be used."""


class InputError(LDAgentError):
    """A text, time or speaker that cannot be used."""


class DataFileError(InputError):
    """A record of an input file that cannot be read."""

    def __init__(self, path: object, line: int | None, what: str) -> None:
        self.path, self.line, self.what = str(path), line, what
        super().__init__(f"{path}, line {line}: {what}" if line else f"{path}: {what}")


class ModelError(LDAgentError):
    """A model, tokenizer or adapter that cannot be loaded."""


class BackboneError(LDAgentError):
    """A model or endpoint that failed to answer.

    Attributes:
        refused: the endpoint says that the call itself is at fault, so that the same call fails again.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class StoreError(LDAgentError):
    """A memory file that cannot be opened, read or written.

    Attributes:
        remedy: the message without the store's path; "" unless that was given apart, for a message that names nobody.
    """

    def __init__(self, message: str, path: object = None) -> None:
        self.remedy = "" if path is None else message
        super().__init__(message if path is None else f"{path}: {message}")


class RepeatedRowError(StoreError):
    """A row that a conversation has already."""


class EncoderMismatchError(StoreError):
    """The vectors in the store are not from the configured encoder."""


class ConversationBusyError(StoreError):
    """A second caller entered a Conversation before the first had left."""
