"""``ld-agent chat``: lines in, streamed replies out; `chat_commands` has what begins with a slash."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from ld_agent.agent import Agent, Conversation
from ld_agent.backbones.served import served_models
from ld_agent.cli.chat_commands import COMMANDS
from ld_agent.cli.show import console, plain, read_in, say
from ld_agent.config import Config
from ld_agent.config.sections import SMOLLM2, BackboneSection
from ld_agent.errors import BackboneError, InputError, ModelError
from ld_agent.languages import ENGLISH
from ld_agent.running.terminal import LongWork
from ld_agent.storage.address import is_address, shown
from ld_agent.types import name_key


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
        _check_server(agent)
        with console.status("loading the models; the first start converts one, which takes a while …"):
            agent.warm_up()
        for line in _welcome(agent, conversation_id, name_of_agent, typed):
            console.print(plain(line, "dim"), soft_wrap=True)
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


def _generator(agent: Agent) -> BackboneSection:
    return agent.models.settings("generator").backbone or agent.config.backbone


def _check_server(agent: Agent) -> None:
    """Say at once if the replies come from a server on this machine that does not run."""
    url = _generator(agent).base_url
    local = url and urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    if url and local and served_models(url, timeout=5.0) is None:
        raise ModelError(f"nothing answers at backbone.base_url={url}; start the server, or see: ld-agent doctor")


def _welcome(agent: Agent, conversation_id: str, name: str, typed: bool) -> Iterator[str]:
    """Who is here, which model talks, where the memory is, and on a terminal what to try."""
    yield f"{name} is here, and remembers. /help lists the commands."
    yield _who_talks(_generator(agent))
    path = agent.store.path
    yield f"The memory is {shown(path) if is_address(path) or path == ':memory:' else Path(path).absolute()}."
    stored = agent.store.find_conversation(conversation_id)
    last = agent.store.last_utterance(stored.key) if stored else None
    if stored and last:
        count = agent.store.counts(stored.key)["records"]
        known = f"{count} {'memory' if count == 1 else 'memories'} of it; /memory shows them" if count else "/help"
        yield f"Your last conversation was {ENGLISH.ago(last.at, agent.clock())} ({known})."
    elif typed:
        yield f"Try:  tell {name} about yourself, such as: My dog Biscuit keeps me sane."
        yield f"      /end, then ask: What is my dog called? /why says how {name} knows"
        yield f"      /persona shows what {name} knows about you; /edit, /forget and /pin change it"


def _who_talks(section: BackboneSection) -> str:
    """Which model writes the replies, and how to use a larger one."""
    if section.model == SMOLLM2:
        return (
            "The model is the small embedded SmolLM2-135M. For good conversation use a larger one: ld-agent chat -c qwen3-1.7b, "
            "or what ld-agent doctor finds on this machine."
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
    """Reply to a line, streamed on a terminal; False: the line could not be stored, or it was stored but the model failed."""
    console.print(plain(f"{conversation.agent_name}: ", "bold"), end="")
    shown = ""

    def show(piece: str) -> None:
        nonlocal shown
        shown += piece
        console.print(plain(piece), end="", soft_wrap=True)

    try:
        # in a file or pipe nobody waits for the words, and a reply is known whole: without the reasoning that no tag opens
        reply = conversation.respond(text, on_text=show if console.is_terminal else None, interruptible=interruptible)
    except (InputError, BackboneError) as exc:
        console.print(plain(f"({exc})", "red"), soft_wrap=True)
        return False
    if reply.text.startswith(shown):
        console.print(plain(reply.text[len(shown) :]), end="", soft_wrap=True)
    console.print()
    line = read_in(reply)
    for note in reply.notes:
        shown_note = f"remembered: {line}" if line and note.endswith(line) else note
        console.print(plain(f"({shown_note})", "dim"), soft_wrap=True)
    return True


def _command(name: str, argument: str, conversation: Conversation) -> None:
    if name not in COMMANDS:
        console.print(plain(f"unknown command /{name}; /help lists them", "red"))
        return
    try:
        COMMANDS[name](conversation, argument)
    except InputError as exc:
        console.print(plain(str(exc), "red"), soft_wrap=True)
