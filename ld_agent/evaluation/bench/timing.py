"""What every bench shares: times and their spread, processes of their own, and the machine that was measured."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ld_agent.errors import ModelError

PACKAGES = ("ld_agent", "torch", "transformers", "sentence-transformers", "spacy", "numpy")
CALL = """
import json, sys
from pkgutil import resolve_name
print(json.dumps(resolve_name(sys.argv[1])(*json.load(sys.stdin))))
"""
"""A program that calls a function with the arguments on standard input and prints what it returns, as JSON."""


def milliseconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def spread(times: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th percentile of times."""
    return {"median": round(statistics.median(times), 3), "p95": round(float(np.percentile(times, 95)), 3)}


def in_process(function: str, *arguments: Any, folder: Path | None = None, threads: int | None = 1) -> Any:
    """Return what a function, "package.module:name", returns in a process of its own, offline; arguments and result are JSON.

    Args:
        folder: where the process starts; None: here.
        threads: of its computing libraries; None: as many as they like.
    """
    done = subprocess.run(
        [sys.executable, "-c", CALL, function],
        input=json.dumps(arguments),
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"HF_HUB_OFFLINE": "1"} | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)}),
    )
    if done.returncode:
        raise ModelError(f"{function} failed in its process; its own message is above")
    return json.loads(done.stdout.splitlines()[-1])


def peak_mb() -> int | None:
    """Return the peak of this process's resident memory (``VmHWM``); None where there is no /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((round(int(line.split()[1]) / 1024) for line in lines if line.startswith("VmHWM")), None)


def machine() -> dict[str, Any]:
    """Return the machine and the versions that figures were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "date": datetime.now(UTC).date().isoformat(),
    }
