"""The command line ``ld-agent``: parses arguments, calls the library, prints. One file a command group.

Exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted. An error is one line on standard error;
``--debug`` shows the traceback.
"""

from __future__ import annotations

import os
import sys

from ld_agent.errors import ConfigError, LDAgentError


def main() -> None:
    """Run the command line and exit."""
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import click

    from ld_agent.cli.app import app

    try:
        code = app(arguments, prog_name="ld-agent", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as exc:
        exc.show()
        code = exc.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as exc:
        if debug:
            raise
        code = _explained(exc)
    sys.exit(code if isinstance(code, int) else 0)


def _explained(exc: Exception) -> int:
    """Print an exception as one line; returns the exit code."""
    if isinstance(exc, LDAgentError):
        message = " ".join(str(exc).split())
    else:
        reason = " ".join(str(exc).split())[:300]
        message = f"unexpected {type(exc).__name__}: {reason}; run again with --debug for the traceback"
    print(f"ld-agent: {message}", file=sys.stderr)  # noqa: T201
    return 2 if isinstance(exc, ConfigError) else 1
