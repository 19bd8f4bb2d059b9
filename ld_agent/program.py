"""Runs a Typer application as a program: exit codes, one-line errors, ``--debug``, ``--json``, ``--lenient``. Knows no command.

Exit codes: 0 done, 1 the work failed, 2 wrong usage or configuration, 130 interrupted. An error is one line on standard
error; ``--debug``, anywhere before a ``--``, shows the traceback.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from ld_agent.errors import ConfigError, DataFileError, LDAgentError

if TYPE_CHECKING:
    from typer import Typer


def run_app(app: Typer, name: str, interrupted: str = "") -> NoReturn:
    """Run a Typer application with the arguments of this process and exit with one of the codes above.

    Args:
        name: as it is called ("python -m training.extractor").
        interrupted: printed after Ctrl-C.
    """
    import typer

    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    debug = "--debug" in arguments[:end]
    arguments = [a for a in arguments[:end] if a != "--debug"] + arguments[end:]
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", category=FutureWarning)  # chatter of libraries
    try:
        code = app(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        code = 130
    except typer.TyperException as exc:
        code = _misused(exc, name)
    except KeyboardInterrupt:
        code = _failed(name, interrupted, 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as exc:
        if debug:
            raise
        code = _failed(name, _explained(exc), 2 if isinstance(exc, ConfigError) else 1)
    sys.exit(code if isinstance(code, int) else 0)


def print_json(value: Any) -> None:
    """Print the one JSON value that a command with ``--json`` gives."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def lenient(skip: bool) -> Iterator[None]:
    """Read files of records; with ``skip``, go on without what is broken in them, name each on standard error and count them.

    Raises:
        DataFileError: a broken record, without ``skip``; offers to skip it.
    """
    from ld_agent.datasets.records import reporting
    from ld_agent.running.terminal import say

    skipped: set[str] = set()  # a file may be read more than once

    def report(error: DataFileError) -> None:
        if not skip:
            raise DataFileError(error.path, error.line, f"{error.what}; or give --lenient to skip it") from error
        if str(error) not in skipped:
            skipped.add(str(error))
            say(f"skipped: {error}")

    with reporting(report):
        try:
            yield
        finally:
            if skipped:
                say(f"{len(skipped)} broken {'parts' if len(skipped) > 1 else 'part'} of the data skipped")


def _misused(exc: Exception, name: str) -> int:
    """Print what is wrong with the arguments as one line; returns the exit code."""
    message = " ".join(str(getattr(exc, "format_message", exc.__str__)()).split())
    command = getattr(getattr(exc, "ctx", None), "command_path", name)
    # without a message it was a group called bare, whose help has been printed
    return _failed(name, message and f"{message.rstrip('.')}; see {command} --help", getattr(exc, "exit_code", 2))


def _explained(exc: Exception) -> str:
    text = " ".join(str(exc).split())
    if isinstance(exc, LDAgentError):
        return text
    if isinstance(exc, OSError) and exc.strerror:
        return f"{exc.filename or 'a file'}: {exc.strerror}; check the disk and the permissions, then run again"
    return f"unexpected {type(exc).__name__}: {text[:300]}; run again with --debug for the traceback"


def _failed(name: str, message: str, code: int) -> int:
    """Write one line to standard error, whose control characters are made visible; returns the exit code."""
    if message:
        sys.stderr.write("".join(c if c.isprintable() else repr(c)[1:-1] for c in f"{name}: {message}") + "\n")
    return code
