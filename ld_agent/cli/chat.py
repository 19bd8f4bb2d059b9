"""``ld-agent chat``: lines in, streamed replies out, and the commands that show what the agent remembers and why."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

from rich.text import Text

from ld_agent.agent import Agent, Conversation
from ld_agent.cli.show import console, recalled_table, records_table, traits_table
from ld_agent.config import Config
from ld_agent.errors import BackboneError, InputError
from ld_agent.modules.generator import ago

HELP = """\
/memory          what is remembered of finished sessions
/persona [NAME]  what is known about someone; without a name, about everyone
/why             the numbers behind the last recall
/end             end this session now, so that it is remembered
/help            this list
/quit            end the session and leave (so does end of input)
Ctrl-C stops a reply; what was said so far is kept."""


def run_chat(config: Config, conversation_id: str) -> None:
    """Chat until ``/quit`` or the end of the input."""
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    with Agent(config) as agent:
        opened = _Opening(agent, conversation_id)
        console.print(Text(f"{config.agent.name} is here. /help lists the commands.", style="dim"))
        lines = _lines(config.agent.user)
        for line in lines:
            conversation = opened.conversation()
            if line.startswith("/"):
                if not _command(line, conversation):
                    break
            elif line.strip():
                _turn(conversation, line, config.agent.name)
        opened.finish()


class _Opening:
    """Loads the models while the first line is being typed."""

    def __init__(self, agent: Agent, conversation_id: str) -> None:
        self._agent, self._id = agent, conversation_id
        self._error: BaseException | None = None
        self._conversation: Conversation | None = None
        self._thread = threading.Thread(target=self._load, daemon=True)
        self._thread.start()

    def _load(self) -> None:
        try:
            self._agent.warm_up()
        except BaseException as exc:
            self._error = exc

    def conversation(self) -> Conversation:
        if self._conversation is None:
            with console.status("loading the models …"):
                self._thread.join()
            if self._error is not None:
                raise self._error
            with console.status("finishing what the last session left …"):
                self._conversation = self._agent.conversation(self._id, at=self._agent.clock())
            _greet(self._conversation)
        return self._conversation

    def finish(self) -> None:
        """Wait for the loading even if nothing was said: a missing model is reported, an unfinished session ended."""
        self.conversation()


def _greet(conversation: Conversation) -> None:
    said = conversation.utterances
    if said:
        when = ago(said[-1].at, conversation.agent.clock())
        console.print(
            Text(f"(you talked last {when}; {len(conversation.records)} sessions are remembered)", style="dim")
        )


def _lines(user: str) -> Iterator[str]:
    """The user's lines: with a prompt from a terminal, echoed from a pipe."""
    if sys.stdin.isatty():
        import readline  # noqa: F401 - editing and history for input()

        while True:
            try:
                yield input(f"{user}: ")
            except EOFError:
                console.print()
                return
            except KeyboardInterrupt:
                console.print("\n(/quit leaves)", style="dim")
    else:
        for line in sys.stdin:
            shown = line.rstrip("\n")
            console.print(Text(f"{user}: {shown[:200]}{' …' if len(shown) > 200 else ''}"))
            yield shown


def _turn(conversation: Conversation, text: str, name: str) -> None:
    console.print(Text(f"{name}: ", style="bold"), end="")
    shown: list[str] = []

    def show(piece: str) -> None:
        shown.append(piece)
        console.print(Text(piece if len(shown) > 1 else piece.lstrip()), end="", soft_wrap=True)

    try:
        reply = conversation.respond(text, on_text=show, interruptible=True)
    except (InputError, BackboneError) as exc:
        console.print(Text(f"({exc})", style="red"))
        return
    if not "".join(shown).strip():
        console.print(Text(reply.text), end="")
    console.print()
    for note in reply.notes:
        console.print(Text(f"({note})", style="dim"))


def _command(line: str, conversation: Conversation) -> bool:
    """Carry out a command; False: leave."""
    name, _, argument = line[1:].strip().partition(" ")
    if name in ("quit", "exit"):
        return False
    if name not in COMMANDS:
        console.print(Text(f"unknown command /{name}; /help lists them", style="red"))
        return True
    try:
        COMMANDS[name](conversation, argument.strip())
    except InputError as exc:
        console.print(Text(str(exc), style="red"))
    return True


def _memory(conversation: Conversation, argument: str) -> None:
    console.print(records_table(conversation.records))


def _persona(conversation: Conversation, argument: str) -> None:
    names = [argument] if argument else dict.fromkeys([*conversation.speakers, conversation.agent_name])
    for name in names:
        console.print(Text(name, style="bold"))
        console.print(traits_table(conversation.persona(name, history=True)))


def _why(conversation: Conversation, argument: str) -> None:
    reply = conversation.last_reply
    if reply is None:
        console.print(Text("nothing was recalled yet; say something first", style="dim"))
        return
    memory = conversation.agent.config.memory
    tau = "no decay" if memory.tau is None else f"τ = {memory.tau:g} s"
    console.print(
        Text(f"overall = λ (s_sem + s_top), s_sem > γ = {memory.gamma:g}, {tau}, k = {memory.k}", style="dim")
    )
    console.print(recalled_table(reply.recalled))
    for name, traits in reply.traits.items():
        console.print(Text(f"{name}: {' '.join(traits)}", style="dim"))


def _end(conversation: Conversation, argument: str) -> None:
    with console.status("remembering …"):
        records = conversation.end_session()
    console.print(records_table(records) if records else Text("no session is running", style="dim"))


def _help(conversation: Conversation, argument: str) -> None:
    console.print(HELP)


COMMANDS: dict[str, Callable[[Conversation, str], None]] = {
    "memory": _memory,
    "persona": _persona,
    "why": _why,
    "end": _end,
    "help": _help,
}
