"""``ld-agent chat``: lines in, streamed replies out, and commands that show what the agent remembers and why."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ld_agent.agent import Agent, Conversation
from ld_agent.cli.show import RecalledTable, console, plain, records_table, say, traits_table
from ld_agent.config import Config
from ld_agent.config.sections import SMOLLM2
from ld_agent.errors import BackboneError, InputError
from ld_agent.languages import ENGLISH
from ld_agent.memory.views import VIEWS
from ld_agent.terminal import LongWork
from ld_agent.types import name_key

HELP = """\
/memory          memories of past sessions
/persona [NAME]  traits of a person, or of everyone
/why             the numbers behind the last recall
/end             end this session now, so that it is summarized
/help            this list
/quit            end the session and exit (as does end of input)
Ctrl-C stops a reply; the part already generated is kept."""


def run_chat(config: Config, conversation_id: str) -> int:
    """Chat until ``/quit`` or the end of the input.

    Returns:
        the exit code: 1 if lines came from a pipe and a reply failed; on a terminal, the user saw it and could
        retry.
    """
    typed = sys.stdin is not None and sys.stdin.isatty()
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    failed = False
    with Agent(config, background=True) as agent:
        agent.resources.progress = LongWork()
        name_of_agent = _agent_name(agent, conversation_id)
        with console.status("loading the models; the first start converts one, which takes a while …"):
            agent.warm_up()
        console.print(plain(f"{name_of_agent} is here. /help lists the commands.", "dim"))
        console.print(plain(_who_talks(agent), "dim"), soft_wrap=True)
        _greet(agent, conversation_id)
        with console.status("remembering the last session …"):
            conversation = agent.conversation(conversation_id, agent_name=name_of_agent)
        for line in _typed_lines(config.agent.user) if typed else _piped_lines(config.agent.user):
            name, _, argument = line[1:].strip().partition(" ") if line.startswith("/") else ("", "", "")
            if name in ("quit", "exit"):
                break
            if not line.strip():
                continue
            try:
                if line.startswith("/"):
                    _command(name, argument.strip(), conversation)
                else:
                    failed |= not _turn(conversation, line, interruptible=typed)
            except KeyboardInterrupt:
                if not typed:
                    raise
                console.print("\n(stopped; /quit leaves)", style="dim")
        if config.memory.close_on_exit and conversation.running:
            with console.status("summarizing this session …"):
                conversation.end_session()
    return 1 if failed and not typed else 0


def _who_talks(agent: Agent) -> str:
    """Which model writes the replies, and how to use a larger one."""
    section = agent.models.settings("generator").backbone or agent.config.backbone
    if section.model == SMOLLM2:
        return (
            "The model is the small embedded SmolLM2-135M. For good conversation use a larger one: ld-agent chat -c qwen3-1.7b, "
            "or -c instructed backbone.model=FILE.gguf"
        )
    where = f" at {section.base_url}" if section.base_url else ""
    return f"The model is {section.model.rpartition('/')[2]}{where}; another one: backbone.model=NAME"


def _agent_name(agent: Agent, conversation_id: str) -> str:
    """Return the agent's name; a stored conversation keeps its agent's name, whatever ``agent.name`` says."""
    if not conversation_id.strip():
        raise InputError("the conversation id is empty; give it a name, such as --conversation alice")
    stored = agent.store.find_conversation(conversation_id)
    name = stored.agent if stored else agent.config.agent.name
    if name_key(name) == name_key(agent.config.agent.user):
        raise InputError(
            f"agent.user={name!r} is the agent's name in conversation {conversation_id!r}; "
            "give the person another name, or choose another --conversation"
        )
    if name != agent.config.agent.name:
        rename = f"ld-agent memory rename --store {agent.store.path} --conversation {conversation_id}"
        say(
            f"the agent of this conversation is {name}; agent.name={agent.config.agent.name} applies to new ones. "
            f"To rename {name} here: {rename} {agent.config.agent.name}"
        )
    return name


def _greet(agent: Agent, conversation_id: str) -> None:
    stored = agent.store.find_conversation(conversation_id)
    last = agent.store.last_utterance(stored.key) if stored else None
    if stored and last:
        count = agent.store.counts(stored.key)["records"]
        known = f"{count} {'memory' if count == 1 else 'memories'} of it; /memory shows them" if count else "/help"
        console.print(plain(f"Your last conversation was {ENGLISH.ago(last.at, agent.clock())} ({known}).", "dim"))


def _typed_lines(user: str) -> Iterator[str]:
    """Read the user's lines, each after a prompt."""
    import readline  # noqa: F401 - editing and history for input()

    while True:
        try:
            yield input(plain(f"{user}: ").plain)
        except EOFError:
            console.print()
            return
        except KeyboardInterrupt:
            console.print("\n(/quit leaves)", style="dim")


def _piped_lines(user: str) -> Iterator[str]:
    """Read the user's lines from a pipe or file and echo them, so that the output reads as a conversation."""
    for line in sys.stdin or ():
        text = line.rstrip("\r\n")
        console.print(plain(f"{user}: {text[:200]}{' …' if len(text) > 200 else ''}"), soft_wrap=True)
        yield text


def _turn(conversation: Conversation, text: str, *, interruptible: bool) -> bool:
    """Stream the reply to a line; False: the line could not be stored, or it was stored but the model failed."""
    console.print(plain(f"{conversation.agent_name}: ", "bold"), end="")
    shown = ""

    def show(piece: str) -> None:
        nonlocal shown
        shown += piece
        console.print(plain(piece), end="", soft_wrap=True)

    try:
        reply = conversation.respond(text, on_text=show, interruptible=interruptible)
    except (InputError, BackboneError) as exc:
        console.print(plain(f"({exc})", "red"), soft_wrap=True)
        return False
    if reply.text.startswith(shown):
        console.print(plain(reply.text[len(shown) :]), end="", soft_wrap=True)
    console.print()
    for note in reply.notes:
        console.print(plain(f"({note})", "dim"), soft_wrap=True)
    return True


def _command(name: str, argument: str, conversation: Conversation) -> None:
    if name not in COMMANDS:
        console.print(plain(f"unknown command /{name}; /help lists them", "red"))
        return
    try:
        COMMANDS[name](conversation, argument)
    except InputError as exc:
        console.print(plain(str(exc), "red"), soft_wrap=True)


def _memory(conversation: Conversation, argument: str) -> None:
    records = conversation.records
    newest = {r.view: r.id for r in records if r.view in VIEWS and VIEWS[r.view].rewrites}
    console.print(records_table([r for r in records if newest.get(r.view, r.id) == r.id]))


def _persona(conversation: Conversation, argument: str) -> None:
    names = [argument] if argument else dict.fromkeys([*conversation.speakers, conversation.agent_name])
    for name in names:
        traits = conversation.persona(name, history=True)
        console.print(plain(name, "bold"))
        console.print(traits_table(traits))


def _why(conversation: Conversation, argument: str) -> None:
    reply = conversation.last_reply
    if reply is None:
        console.print("nothing was recalled yet; say something first", style="dim")
        return
    memory = conversation.relation.resources.config.memory
    for view in memory.views:
        label = f"{view}: " if len(memory.views) > 1 else ""
        console.print(plain(label + VIEWS[view].ranking(memory), "dim"))
        console.print(RecalledTable([r for r in reply.recalled if r.record.view == view]))
        for line in _explained(reply.explanations.get(view, {})):
            console.print(plain(line, "dim"), soft_wrap=True)
    for name, traits in reply.traits.items():
        console.print(plain(f"{name}: {' '.join(traits)}", "dim"))


def _explained(explanation: Mapping[str, Any]) -> Iterator[str]:
    """The rounds of a reflection, one per line; other explanations unchanged."""
    for number, entry in enumerate(explanation.get("rounds", ()), 1):
        candidates = ", ".join(entry["candidates"])
        outcome = {
            "enough": f"enough, chose {', '.join(entry.get('selected', ())) or 'none'}",
            "missing": f"searched again with: {', '.join(entry.get('keywords', ()))}",
            "unusable": "the model's answer was unreadable; results kept",
            "failed": f"the model failed; results kept ({entry.get('problem', '')})",
        }[entry["outcome"]]
        yield f"round {number}: found {candidates}; {outcome}"
    for name, value in explanation.items():
        if name != "rounds":
            yield f"{name}: {', '.join(map(str, value)) if isinstance(value, (list, tuple)) else value}"


def _end(conversation: Conversation, argument: str) -> None:
    running = bool(conversation.running)
    with console.status("remembering …"):
        records = conversation.end_session()
    if records:
        console.print(records_table(records))
    else:
        said = "the session ended; its memory is still pending" if running else "no session is running"
        console.print(said, style="dim")


def _help(conversation: Conversation, argument: str) -> None:
    console.print(plain(HELP))


COMMANDS: dict[str, Callable[[Conversation, str], None]] = {
    "help": _help,
    "memory": _memory,
    "persona": _persona,
    "why": _why,
    "end": _end,
}
