"""The command line ``ld-agent``: parses arguments, calls the library, prints. One file a command group; `ld_agent.program`
says how it exits.
"""

from __future__ import annotations

import io
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a character that the terminal cannot show must not end the program

    from ld_agent.cli.app import app
    from ld_agent.program import run_app

    run_app(app, "ld-agent")
