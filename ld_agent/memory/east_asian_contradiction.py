"""Values and content of Chinese and Korean traits, whose words are not separated by spaces, for
`ld_agent.memory.contradiction`.

As in English, nothing contradicts if in doubt.
"""

from __future__ import annotations

from ld_agent.languages.reading import Reading


def agree(newer: str, older: str) -> bool:
    """Whether one value contains the other: "上海浦东" is still "上海"."""
    return newer == older or (not newer.isdigit() and not older.isdigit() and (newer in older or older in newer))


def content(trait: str, reading: Reading) -> set[str]:
    """Pairs of the characters that carry a trait's content; a single character if there is only one."""
    runs = [run for run in reading.pattern("empty").sub(" ", trait).split() if run]
    return {run[n : n + 2] for run in runs for n in range(max(len(run) - 1, 1))}
