"""The commands inside a chat: they show what the agent remembers and why, and change what it believes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ld_agent.cli.show import RecalledTable, console, date, plain, read_in, records_table, traits_table
from ld_agent.conversation import Conversation
from ld_agent.errors import InputError
from ld_agent.memory.views import VIEWS, view_class
from ld_agent.types import Record, Reply, Trait

HELP = """\
/memory          memories of past sessions, with their ids
/persona [NAME]  traits of a person, or of everyone, with their ids
/why             why the last reply was given: a sentence, then the numbers
/edit ID TEXT    correct a memory, a trait or something said, everywhere
/forget ID       forget it, everywhere and for good
/pin ID          put a memory or a trait into every prompt; again: no longer
/undo            take back the last /edit or /pin
/end             end this session now, so that it is summarized
/help            this list
/quit            end the session and exit (as does end of input)
Ctrl-C stops a reply; the part already generated is kept."""


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
    console.print(plain(_reason(conversation, reply)), soft_wrap=True)
    memory = conversation.relation.resources.config.memory
    for view in memory.views:
        label = f"{view}: " if len(memory.views) > 1 else ""
        console.print(plain(label + view_class(view).ranking(memory), "dim"))
        console.print(RecalledTable([r for r in reply.recalled if r.record.view == view]))
        for line in _explained(reply.explanations.get(view, {})):
            console.print(plain(line, "dim"), soft_wrap=True)
    for name, traits in reply.traits.items():
        console.print(plain(f"{name}: {' '.join(traits)}", "dim"))


def _reason(conversation: Conversation, reply: Reply) -> str:
    """Why a reply was given, in a sentence."""
    if line := read_in(reply):
        said = next((u for u in reversed(conversation.utterances) if u.text == line and u != reply.heard), None)
        if said is None:
            return f"I read it in what I know: “{line}”"
        who = {conversation.agent_name: "I", reply.heard.speaker: "you"}.get(said.speaker, said.speaker)
        return f"I read it in what {who} said on {date(said.local_at)}: “{line}”"
    if reply.recalled:
        best = reply.recalled[0].record
        return f"I remembered, of {date(best.at)}: “{best.text}”"
    return "I remembered nothing for it: it comes from this session and the traits below, if there are any."


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


def _edit(conversation: Conversation, argument: str) -> None:
    target, _, text = argument.partition(" ")
    if not text.strip():
        raise InputError(
            "/edit needs an id and the new text: /edit t3 I live in Bath. /memory and /persona show the ids"
        )
    conversation.edit(target, text.strip())
    console.print(plain(f"{target} is corrected, and everything else that said it; /undo takes it back", "dim"))


def _forget(conversation: Conversation, argument: str) -> None:
    conversation.forget(_id(argument, "/forget"))
    console.print(plain(f"{argument} is forgotten, and everything else that said it", "dim"))


def _pin(conversation: Conversation, argument: str) -> None:
    target = _id(argument, "/pin")
    there: list[Record | Trait] = [*conversation.records, *conversation.traits(history=True)]
    pinned = any(one.pinned for one in there if one.id == target)
    conversation.pin(target, not pinned)
    state = "no longer pinned" if pinned else "pinned: it is in every prompt from now on"
    console.print(plain(f"{target} is {state}", "dim"))


def _id(argument: str, command: str) -> str:
    if not argument:
        raise InputError(f"{command} needs an id, such as {command} t3; /memory and /persona show them")
    return argument


def _undo(conversation: Conversation, argument: str) -> None:
    conversation.undo()
    console.print("taken back; /undo again puts it back", style="dim")


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
    "edit": _edit,
    "forget": _forget,
    "pin": _pin,
    "undo": _undo,
    "end": _end,
}
