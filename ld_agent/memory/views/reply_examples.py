"""The (memory, dialogue, reply) examples of LLM-Rsum's n-shot variants, read from a JSON-lines file.

A line is ``{"memory": "…", "dialogue": [["User", "…"], …], "reply": "…"}``; a memory of several lines keeps them.
"""

from __future__ import annotations

import json

from ld_agent.errors import ConfigError
from ld_agent.files import named_path
from ld_agent.languages import ENGLISH, Language


def reply_examples(path: str, language: Language = ENGLISH) -> tuple[str, ...]:
    """Read a file of examples and render each for the prompt.

    Raises:
        ConfigError: no such file, or a line that is not an example; names file and line.
    """
    try:
        lines = named_path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"memory.recursive.examples={path} cannot be read ({exc}); give a JSON-lines file") from exc
    rendered: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            memory, reply = row["memory"], row["reply"]
            dialogue = [(speaker, text) for speaker, text in row["dialogue"]]
            if not all(isinstance(value, str) for value in (memory, reply, *(v for pair in dialogue for v in pair))):
                raise TypeError("a value is not text")
        except (ValueError, KeyError, TypeError) as exc:
            raise ConfigError(
                f"memory.recursive.examples={path}, line {number}: no example ({exc!r}); write "
                '{"memory": "…", "dialogue": [["User", "…"]], "reply": "…"}'
            ) from exc
        [message] = language.prompt("recursive_example").render(
            number=len(rendered) + 1, memory=memory.splitlines(), dialogue=dialogue, reply=reply
        )
        rendered.append(message.content)
    return tuple(rendered)
