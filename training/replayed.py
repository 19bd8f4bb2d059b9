"""Build generator rows by replaying episodes through the agent: one row per reply from session 2 on.

The prompts are intercepted from `Conversation.turn`, and the recorded replies serve as answers, so the generator's model
never runs. Finished episodes are saved next to the output and not replayed after an interruption. Knows no prompt and no
token.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.datasets.base import Episode
from ld_agent.errors import InputError
from ld_agent.modules.registry import NOT_SAID
from ld_agent.prompts import as_line
from ld_agent.running.replay import PlayedTurn, play, prompt_of
from ld_agent.steps import Steps, answering_some, run_many
from ld_agent.terminal import progress
from training.rows import row_values

FIRST_SESSION = 2
Work = Mapping[str, tuple[str, Episode]]
"""(corpus, episode) by a key that no other pair has."""
UNASKED = {"generator": "-", "reader": NOT_SAID}
"""Answers in place of modules whose answers the recorded replies replace."""


def build_generator(
    episodes: Sequence[tuple[str, Episode]],
    config: Config,
    out: Path,
    *,
    width: int = 16,
    overwrite: bool = False,
) -> list[dict[str, Any]]:
    """Replay (corpus, episode) pairs in groups of ``width``, those of a group concurrently, and return the rows in corpus order.

    Raises:
        InputError: an interrupted build next to ``out`` has other settings.
        ModelError, BackboneError: as in `Agent`.
    """
    config = config.changed(memory={"close_on_exit": False}, store={"path": ":memory:"})
    work = {f"{corpus}/{number}/{e.id}": (corpus, e) for number, (corpus, e) in enumerate(episodes)}
    mark = hashlib.sha256(f"{list(work)}{config.model_dump_json()}".encode()).hexdigest()
    path = out.with_name(f"{out.name}.part")
    with closing(_Kept(path, mark, overwrite)) as kept:
        todo = {key: pair for key, pair in work.items() if key not in kept.rows}
        with progress("episodes", len(work), len(work) - len(todo)) as advance:

            def keep(key: str, rows: list[dict[str, Any]]) -> None:
                kept.add(key, rows)
                advance(1)

            for start in range(0, len(work), width):
                batch = list(work)[start : start + width]
                if group := {key: todo[key] for key in batch if key in todo}:
                    _replay(group, config, keep)
    path.unlink()
    return [row for key in work for row in kept.rows[key]]


def _replay(work: Work, config: Config, keep: Callable[[str, list[dict[str, Any]]], None]) -> None:
    """Replay some episodes side by side with an agent of their own."""
    with Agent(config) as agent:
        rows: dict[str, list[dict[str, Any]]] = defaultdict(list)

        def steps() -> Iterator[tuple[str, Steps[None]]]:
            for key, (corpus, episode) in work.items():
                emit = partial(_emit, rows[key], corpus, episode)
                # Ids are unique only within a corpus.
                played = play(agent, replace(episode, id=key), emit, teacher_forced=True)
                yield key, answering_some(played, lambda request: UNASKED.get(request.module))

        for key, _ in run_many(steps(), agent.models.complete, len(work)):
            keep(key, [row | {"episode": work[key][1].id} for row in rows.pop(key, [])])
            agent.conversation(key, agent_name=work[key][1].agent).delete()


def _emit(rows: list[dict[str, Any]], corpus: str, episode: Episode, turn: PlayedTurn) -> None:
    """Add the row of a turn, if it becomes one."""
    if _is_target(turn, episode):
        target = as_line(turn.reference)
        about = {"corpus": corpus, "session": turn.session, "turn": turn.turn}
        rows.append(row_values(prompt_of(turn.reply), target, **about))


def _is_target(turn: PlayedTurn, episode: Episode) -> bool:
    """Whether a reply becomes a row: the answer, in a corpus where only answers count; otherwise any that can use memory."""
    if episode.answer_only:
        said = turn.reply.utterance
        return said is not None and said.at == episode.turns[-1].at
    return turn.session >= FIRST_SESSION


class _Kept:
    """The finished episodes of a build and their rows, also in a file: a header line, then one JSON line each.

    Raises:
        InputError: the file cannot be written, or is of a build with other settings, and ``overwrite`` is false.
    """

    def __init__(self, path: Path, mark: str, overwrite: bool) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        except OSError as exc:
            raise InputError(f"{path} cannot be written ({exc.strerror}); give a writable folder") from exc
        self._file.seek(0)
        *lines, _ = self._file.read().split(b"\n")  # drop an incomplete last line
        if lines and json.loads(lines[0]).get("build") != mark:
            if not overwrite:
                self.close()
                raise InputError(
                    f"{path} was left by a build with other settings; give --overwrite to start again, or those settings"
                )
            lines = []
        self._file.truncate(sum(len(line) + 1 for line in lines))
        if not lines:
            self._write({"build": mark})
        self.rows = {value["key"]: value["rows"] for value in map(json.loads, lines[1:])}

    def add(self, key: str, rows: list[dict[str, Any]]) -> None:
        self.rows[key] = rows
        self._write({"key": key, "rows": rows})

    def close(self) -> None:
        self._file.close()

    def _write(self, value: dict[str, Any]) -> None:
        self._file.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
