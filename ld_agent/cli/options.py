"""The options that several commands share, each defined once, and the config that they make. Knows no command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ld_agent.config import Config, greedy_config, load_config
from ld_agent.config.sections import StoreSection
from ld_agent.datasets.exports import FORMATS

Overrides = Annotated[
    list[str] | None, typer.Argument(help="Config overrides, such as memory.k=5.", metavar="[KEY=VALUE]...")
]
OneConfig = Annotated[
    str | None, typer.Option("--config", "-c", help="A config file, or the name of a shipped one. Default: default.")
]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", help="A config file, or the name of a shipped one; may be repeated."),
]
Store = Annotated[
    str,
    typer.Option(
        "--store",
        help="The memory store: a file or a postgresql:// address.",
        default_factory=lambda: StoreSection().path,
        show_default=StoreSection().path,
    ),
]
MaybeStore = Annotated[
    str | None,
    typer.Option(
        "--store", help="The memory store: a file or a postgresql:// address. Default: the config's store.path."
    ),
]
Conversation = Annotated[str, typer.Option("--conversation", help="The conversation's id.")]
MaybeConversation = Annotated[str | None, typer.Option("--conversation", help="One conversation's id.")]
At = Annotated[str | None, typer.Option("--at", help="As of this time (ISO 8601 with time zone). Default: now.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else on standard output.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Only the first N episodes, dialogues, samples or conversations.")
]
Drawn = Annotated[int | None, typer.Option("--limit", min=1, help="Only N items, drawn at random.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed for --limit and for shuffled positions.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Store the predictions in this folder; interrupted runs resume.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Discard predictions of another configuration in --out.")]
BertModel = Annotated[
    str | None,
    typer.Option(
        "--bert-score", metavar="MODEL", help="Also compute BERTScore with this encoder; 'default': encoder.model."
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", metavar="MODULE:NAME", help="Also compute a metric of your own; repeat for more."),
]
On = Annotated[
    Literal["", "ray"], typer.Option("--on", help="ray: distribute the work over a Ray cluster. Default: this process.")
]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Skip broken records and sessions out of order, name and count them.")
]
Width = Annotated[int, typer.Option("--batch", min=1, help="Number of conversations played concurrently.")]
RunsFolder = Annotated[Path | None, typer.Option("--from", help="A folder that contains runs, at any depth.")]


def configured(config: str | None, store: str | None, overrides: list[str] | None, *, greedy: bool = False) -> Config:
    """The config with its overrides, and another store."""
    settings = (greedy_config if greedy else load_config)(config, overrides or [])
    return settings if store is None else settings.changed(store={"path": store})


def help_of(text: str, *examples: str) -> str:
    """The help of a command that is made from a table: a text, and calls of the command without the program's name."""
    calls = "\n\n".join(f"  ld-agent {example}" for example in examples)
    return f"{text}\n\nExample{'s' if len(examples) > 1 else ''}:\n\n{calls}\n" if examples else text


Source = Annotated[
    Path, typer.Argument(metavar="IN", help="A file of `memory export`, or a history: a file, a folder or a zip.")
]
Origin = Annotated[
    str | None, typer.Option("--from", help=f"The format of a history: {', '.join(FORMATS)}. Default: recognised.")
]
Me = Annotated[str | None, typer.Option("--me", help="Your name in a history. Default: agent.user.")]
TakesIn = Annotated[
    str | None,
    typer.Option("--conversation", help="The id of the conversation that takes a history in. Default: chat."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Zone = Annotated[
    str | None, typer.Option("--timezone", help="Of times without one, like Europe/Paris. Default: this machine's.")
]
Dry = Annotated[bool, typer.Option("--dry-run", help="Show what a history would store, or a folder change.")]
"""Of ``memory import``, as the five before."""
