"""The command line ``ld-agent``: parses arguments, calls the library, prints. One file a command group.

Exit codes: 0 done, 1 the work failed, 2 wrong usage or configuration, 130 interrupted. An error is one line on standard
error; ``--debug``, anywhere before a ``--``, shows the traceback.
"""

from __future__ import annotations

import io
import os
import sys

from ld_agent.errors import ConfigError, LDAgentError


def main() -> None:
    """Run the command line and exit."""
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    debug = "--debug" in arguments[:end]
    arguments = [a for a in arguments[:end] if a != "--debug"] + arguments[end:]
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show must not end the program

    import typer

    from ld_agent.cli.app import app

    try:
        code = app(arguments, prog_name="ld-agent", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        code = 130
    except typer.TyperException as exc:
        code = _misused(exc)
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as exc:
        if debug:
            raise
        code = _explained(exc)
    sys.exit(code if isinstance(code, int) else 0)


def _misused(exc: Exception) -> int:
    """Print what is wrong with the arguments as one line; returns the exit code."""
    message = " ".join(str(getattr(exc, "format_message", exc.__str__)()).split())
    if message:  # without a message it was a group called bare, whose help has been printed
        command = getattr(getattr(exc, "ctx", None), "command_path", "ld-agent")
        _print(f"ld-agent: {message.rstrip('.')}; see {command} --help")
    return int(getattr(exc, "exit_code", 2))


def _explained(exc: Exception) -> int:
    """Print an exception as one line; returns the exit code."""
    if isinstance(exc, LDAgentError):
        message = " ".join(str(exc).split())
    else:
        reason = " ".join(str(exc).split())[:300]
        message = f"unexpected {type(exc).__name__}: {reason}; run again with --debug for the traceback"
    _print(f"ld-agent: {message}")
    return 2 if isinstance(exc, ConfigError) else 1


def _print(message: str) -> None:
    """Write one line to standard error, whose control characters are made visible."""
    sys.stderr.write("".join(c if c.isprintable() else repr(c)[1:-1] for c in message) + "\n")
