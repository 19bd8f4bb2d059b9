"""Every exception this package raises on purpose, as one tree.

    LDAgentError                    anything below; the command line prints its message as one line, exit code 1
    ├── ConfigError                 an unknown key, a value out of range, a file that is not YAML
    ├── InputError                  text, a time or a speaker handed in by the caller
    │   └── DataFileError           a record of an input file; names file and line
    ├── ModelError                  a model, tokenizer or adapter cannot be found, verified or loaded
    ├── BackboneError               a loaded model or an endpoint failed to answer
    └── StoreError                  the memory file cannot be opened, read or written
        ├── EncoderMismatchError    the vectors were made by another encoder; `ld-agent memory reindex`
        └── ConversationBusyError   a Conversation has one caller at a time, and it has two

A message says what went wrong, the value that was met and how to mend it, in one line. Foreign exceptions are
mapped where they enter, with ``from exc``; nothing here is caught and dropped.
"""

from __future__ import annotations


class LDAgentError(Exception):
    """Base of the tree; catch this to catch everything the package raises on purpose."""


class ConfigError(LDAgentError):
    """A configuration that cannot be used."""


class InputError(LDAgentError):
    """A text, time or speaker that cannot be used."""


class DataFileError(InputError):
    """A record of an input file that cannot be read."""

    def __init__(self, path: object, line: int | None, what: str) -> None:
        self.path, self.line = str(path), line
        super().__init__(f"{path}, line {line}: {what}" if line else f"{path}: {what}")


class ModelError(LDAgentError):
    """A model, tokenizer or adapter that cannot be loaded."""


class BackboneError(LDAgentError):
    """A model or endpoint that failed to answer."""


class StoreError(LDAgentError):
    """A memory file that cannot be opened, read or written."""


class EncoderMismatchError(StoreError):
    """Vectors in the store were made by an encoder other than the configured one."""


class ConversationBusyError(StoreError):
    """A second caller entered a Conversation while the first was still inside."""
