"""Values and content of Chinese and Korean traits, whose words no spaces set apart, for `ld_agent.memory.contradiction`.

As in English, in doubt nothing contradicts.
"""

from __future__ import annotations

from ld_agent.languages.rules import Reading

EMPTY = Reading("empty")


def agree(newer: str, older: str) -> bool:
    """Whether one value says no more than the other: "上海浦东" is still "上海"."""
    return newer == older or (not newer.isdigit() and not older.isdigit() and (newer in older or older in newer))


def content(trait: str) -> set[str]:
    """Pairs of the characters that say what a trait is about; a single character where there is only one."""
    runs = [run for run in EMPTY.sub(" ", trait).split() if run]
    return {run[n : n + 2] for run in runs for n in range(max(len(run) - 1, 1))}
