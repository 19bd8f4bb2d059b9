"""What the commands of this folder share: parsing, exit codes, one line for an error. Knows nothing of training.

Exit codes: 0 done, 1 the work failed, 2 wrong usage or settings, 130 interrupted. ``--debug`` shows the traceback.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from ld_agent.errors import ConfigError, LDAgentError


def run_command(function: Callable[..., Any], name: str) -> None:
    """Run a function as a Typer command with the arguments of this process, and exit."""
    import typer

    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", category=FutureWarning)  # what libraries tell each other
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(function)
    try:
        code = app(arguments, prog_name=f"python -m {name}", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        code = 130
    except typer.TyperException as exc:
        message = " ".join(str(getattr(exc, "format_message", exc.__str__)()).split())
        code = _failed(name, f"{message.rstrip('.')}; see python -m {name} --help", getattr(exc, "exit_code", 2))
    except KeyboardInterrupt:
        code = _failed(name, "interrupted; the same command goes on from the last checkpoint", 130)
    except Exception as exc:
        if debug:
            raise
        code = _failed(name, _explained(exc), 2 if isinstance(exc, ConfigError) else 1)
    sys.exit(code if isinstance(code, int) else 0)


def _explained(exc: Exception) -> str:
    text = " ".join(str(exc).split())
    if isinstance(exc, LDAgentError):
        return text
    if isinstance(exc, OSError) and exc.strerror:
        return f"{exc.filename or 'a file'}: {exc.strerror}; check the disk and the permissions, then run again"
    return f"unexpected {type(exc).__name__}: {text[:300]}; run again with --debug for the traceback"


def _failed(name: str, message: str, code: int) -> int:
    sys.stderr.write("".join(c if c.isprintable() else repr(c)[1:-1] for c in f"{name}: {message}") + "\n")
    return code
