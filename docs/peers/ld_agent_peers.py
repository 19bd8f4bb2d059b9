"""Other memories beside ours: the same conversations, questions, model and encoder for all of them.

pip install -e docs/peers
python -m ld_agent_peers locomo.json --out runs/peers --sessions 4 -c instructed backbone.model=MODEL

Mem0 and LangMem are views here: `memory.views=[ld_agent_peers:Mem0View]` puts one in place of our memory, in any command.
Both store sessions when these end and ask the agent's own model for it. Their packages must be installed.
"""

from __future__ import annotations

import json
import re
import resource
import time
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any

import typer

from ld_agent import Agent, load_config
from ld_agent.backbones.base import Backbone, Completion, Message, Request
from ld_agent.config import Config
from ld_agent.evaluation.played import live
from ld_agent.evaluation.tasks.question_data import Questioned, load_questions
from ld_agent.evaluation.tasks.questions import QuestionsTask, measures
from ld_agent.memory.views import Query
from ld_agent.memory.views.stored import StoredView, draft_of
from ld_agent.steps import Steps, run_many
from ld_agent.types import Recalled, Session

PLAIN = ("personas.cap=0", "memory.quotes=0", "modules.generator.grounded=false")
"""Nothing but its memory answers: no persona bank, no quoted lines, no check of answers against what only our memory keeps."""
ARMS: Mapping[str, Sequence[str]] = {
    "ld_agent": (),
    "ld_agent, events alone": PLAIN,
    "whole history": (*PLAIN, "memory.views=[full]"),
    "BM25": (*PLAIN, "memory.views=[bm25]", "memory.k=10"),
    "dense": (*PLAIN, "memory.views=[dense]", "memory.k=10", "memory.gamma=-1"),
    "Mem0": (*PLAIN, "memory.views=[ld_agent_peers:Mem0View]"),
    "LangMem": (*PLAIN, "memory.views=[ld_agent_peers:LangMemView]"),
}
NO_TRAITS = Completion("NO_TRAIT", 0, 0)
ANSWER = 1000
"""Most tokens of a peer's call."""
CALLED = re.compile(r"<tool_call>\s*(\{.*?\})\s*(?:</tool_call>|$)", re.DOTALL)
TOOLS = """

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
"""How Qwen's chat template tells a model of its tools."""


def chat_model(backbone: Backbone) -> Any:
    """The agent's model as LangChain's, with tools in the form that Qwen's models were trained on."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.utils.function_calling import convert_to_openai_tool

    class SharedModel(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "ld_agent"

        def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
            return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

        def _generate(
            self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
        ) -> Any:
            told = [Message(role_of(m), written(m)) for m in messages]
            if tools := options.get("tools"):
                system = told.pop(0).content if told[0].role == "system" else ""
                told.insert(0, Message("system", system + TOOLS.format("\n".join(map(json.dumps, tools)))))
            [answer] = backbone.generate([Request(tuple(told), "memory", ANSWER, cacheable_prefix=1)])
            calls = [call for text in CALLED.findall(answer.text) if (call := parsed(text))] if tools else []
            text = CALLED.sub("", answer.text) if tools else answer.text
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text, tool_calls=calls))])

    def role_of(message: BaseMessage) -> Any:
        return {"system": "system", "ai": "assistant"}.get(message.type, "user")

    def written(message: BaseMessage) -> str:
        calls = [{"name": c["name"], "arguments": c["args"]} for c in getattr(message, "tool_calls", ())]
        made = "".join(f"\n<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
        answered = f"<tool_response>\n{message.text}\n</tool_response>" if message.type == "tool" else message.text
        return answered + made

    def parsed(text: str) -> dict[str, Any] | None:
        try:
            call = json.loads(text)
            return {"name": str(call["name"]), "args": dict(call["arguments"]), "id": f"call_{time.monotonic_ns()}"}
        except (ValueError, KeyError, TypeError):
            return None

    return SharedModel()


class PeerView(StoredView):
    """A peer's memory: what it stored of each session is a record, and it recalls by itself.

    A copy of a conversation, as questions are asked in, has the memory of the first one.
    """

    encoded = False

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()
        for session in sessions:
            said = session.utterances
            vector = self.context.encoder.encode([said[0].text])[0]
            self.shelf.digest(session.number, [draft_of(said[-1:], text, vector) for text in self.added(session)])

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        self._records.catch_up()
        records = {record.text: record for record in self._records.fetch(range(len(self._records.keys)))}
        found = self.found(query.text)
        return [Recalled(records[text], score, 0.0, 1.0, score) for text, score in found if text in records]

    def added(self, session: Session) -> list[str]:
        """Let the peer learn a session; return the texts of what it stored or changed."""
        raise NotImplementedError

    def found(self, text: str) -> list[tuple[str, float]]:
        """What the peer finds for a text, best first, with its scores."""
        raise NotImplementedError

    @property
    def owner(self) -> str:
        """Whose memory it is: the same for a conversation and its copies."""
        first = self.context.store.utterances_by_id(self.context.key, ["u1"])["u1"]
        return f"{first.speaker.split()[0]}-{first.at:%Y%m%d%H%M%S}"

    def messages(self, session: Session) -> list[dict[str, str]]:
        """A session as chat messages, each with its date and speaker."""
        return [
            {
                "role": "assistant" if u.speaker == self.context.agent else "user",
                "content": f"({u.local_at:%d %B %Y}) {u.speaker}: {u.text}",
            }
            for u in session.utterances
        ]


class Mem0View(PeerView):
    """Mem0 as its README has it: `add` after each session, `search` for what is said."""

    name = "mem0"

    def added(self, session: Session) -> list[str]:
        result = mem0(self.context.models.backbone("memory"), self.context.encoder).add(
            self.messages(session), user_id=self.owner
        )
        return [memory["memory"] for memory in result["results"]]

    def found(self, text: str) -> list[tuple[str, float]]:
        memory = mem0(self.context.models.backbone("memory"), self.context.encoder)
        results = memory.search(text, filters={"user_id": self.owner})["results"]
        return [(result["memory"], float(result["score"])) for result in results]


class LangMemView(PeerView):
    """LangMem's store manager as its guide has it: invoked after each session; its store is searched for what is said."""

    name = "langmem"
    namespace = ("memories", "{langgraph_user_id}")

    def added(self, session: Session) -> list[str]:
        manager, _ = langmem(self.context.models.backbone("memory"), self.context.encoder)
        changed = manager.invoke({"messages": self.messages(session)}, config=self._config)
        return [str(memory["value"]["content"]["content"]) for memory in changed]

    def found(self, text: str) -> list[tuple[str, float]]:
        _, store = langmem(self.context.models.backbone("memory"), self.context.encoder)
        items = store.search(("memories", self.owner), query=text)
        return [(str(item.value["content"]["content"]), float(item.score or 0)) for item in items]

    @property
    def _config(self) -> Any:
        return {"configurable": {"langgraph_user_id": self.owner}}


@cache
def mem0(backbone: Backbone, encoder: Any) -> Any:
    """A Mem0 with the agent's model and encoder, in a temporary folder."""
    import os

    folder = mkdtemp(prefix="mem0-")
    os.environ |= {"MEM0_DIR": folder, "MEM0_TELEMETRY": "False"}  # read on import
    from mem0 import Memory

    return Memory.from_config(
        {
            "llm": {"provider": "langchain", "config": {"model": chat_model(backbone)}},
            "embedder": {"provider": "langchain", "config": {"model": embeddings(encoder)}},
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": f"{folder}/vectors", "embedding_model_dims": encoder.dimension},
            },
            "history_db_path": f"{folder}/history.db",
        }
    )


@cache
def langmem(backbone: Backbone, encoder: Any) -> tuple[Any, Any]:
    """LangMem's manager of memories with the agent's model, and its store with the agent's encoder."""
    from langgraph.store.memory import InMemoryStore
    from langmem import create_memory_store_manager

    store = InMemoryStore(index={"dims": encoder.dimension, "embed": embeddings(encoder)})
    return create_memory_store_manager(chat_model(backbone), namespace=LangMemView.namespace, store=store), store


def embeddings(encoder: Any) -> Any:
    """The agent's encoder as LangChain's."""
    from langchain_core.embeddings import Embeddings

    class SharedEncoder(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            vectors: list[list[float]] = encoder.encode(texts).tolist()
            return vectors

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    return SharedEncoder()


class Counted:
    """A backbone that counts its calls and tokens.

    Args:
        extracts: false: it finds no traits, and nobody pays for looking; they would not be shown.
    """

    def __init__(self, backbone: Backbone, extracts: bool) -> None:
        self._backbone, self._extracts = backbone, extracts
        self.read = self.written = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backbone, name)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        asked = [request for request in requests if self._extracts or request.module != "extractor"]
        answers = self._backbone.generate(asked) if asked else []
        self.read += sum(answer.prompt_tokens for answer in answers)
        self.written += sum(answer.completion_tokens for answer in answers)
        by_request = {id(request): answer for request, answer in zip(asked, answers, strict=True)}
        return [by_request.get(id(request), NO_TRAITS) for request in requests]


def first_sessions(one: Questioned, sessions: int) -> dict[str, Any]:
    """The first sessions of a conversation with the questions that these answer, as a record of the project's own format."""
    turns = [turn for turn in one.episode.turns if (turn.session or 1) <= sessions]
    questions = [q for q in one.questions if q.evidence and max(q.evidence) < len(turns)]
    by_session: dict[int, list[dict[str, str]]] = {}
    for turn in turns:
        said = {"speaker": turn.speaker, "text": turn.text, "at": turn.at.isoformat()}
        by_session.setdefault(turn.session or 1, []).append(said)
    asked = [
        {
            "speaker": q.speaker,
            "text": q.text,
            "at": q.at.isoformat(),
            "answers": list(q.answers),
            "category": q.category,
        }
        for q in questions
    ]
    return {"id": one.episode.id, "agent": one.episode.agent, "sessions": list(by_session.values()), "questions": asked}


def measured(name: str, data: Path, config: Config, out: Path) -> dict[str, Any]:
    """Play and ask with one arm; write its answers, and return its row of the table."""
    task = QuestionsTask(data, config)
    [one] = load_questions(data)
    settings = config.changed(store={"path": ":memory:"})
    loaded = Agent(settings)
    counted = Counted(loaded.models.backbone("generator"), extracts=config.personas.cap > 0)
    with Agent(settings, backbone=counted, encoder=loaded.resources.encoder, topics=loaded.resources.topics) as agent:
        agent.warm_up()

        def costs() -> list[float]:
            return [time.process_time(), counted.read + counted.written]

        begun = costs()
        for _ in run_many([(one.episode.id, live(agent, one.episode))], agent.models.complete, 1):
            pass
        learned = costs()
        conversation = agent.conversation(one.episode.id, agent_name=one.episode.agent)
        stored = len(conversation.records) + (len(agent.store.traits(conversation.key)) if config.personas.cap else 0)
        predictions = list(task.predicted(agent, conversation, task.items, {}))
        asked = costs()
    with (out / f"{name}.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(prediction.line, ensure_ascii=False) + "\n" for prediction in predictions)
    found = {measure: 100 * value.overall for measure, value in measures(predictions).items()}
    turns, questions = len(one.episode.turns), len(predictions)
    recalled = sum(len(prediction.details["recalled"]) for prediction in predictions)
    learning = [(b - a) / turns for a, b in zip(begun, learned, strict=True)]
    answering = [(b - a) / questions for a, b in zip(learned, asked, strict=True)]
    return {
        "memory": name,
        "F1": round(found["f1"], 1),
        "contained": round(found["answered"], 1),
        "never told": round(found["unknown_right"], 1),
        "statements": stored,
        "recalled / answer": round(recalled / questions, 1),
        "CPU s / line": round(learning[0], 1),
        "tokens / line": round(learning[1]),
        "CPU s / answer": round(answering[0], 1),
        "tokens / answer": round(answering[1]),
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main(
    data: Annotated[Path, typer.Argument(help="LoCoMo, or conversations with questions; the first one is used.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings of all, such as backbone.model=FILE.")] = None,
    config: Annotated[str, typer.Option("-c", help="A config of a model that follows instructions.")] = "instructed",
    out: Annotated[Path, typer.Option(help="A new or earlier folder: finished rows are kept.")] = Path("runs/peers"),
    sessions: Annotated[int, typer.Option(help="Number of its first sessions.")] = 8,
    only: Annotated[list[str] | None, typer.Option(help=f"Of: {', '.join(ARMS)}. Default: all.")] = None,
) -> None:
    """Ask the same questions of each memory, and print what they cost."""
    out.mkdir(parents=True, exist_ok=True)
    asked, rows = out / "asked.jsonl", out / "rows.json"
    asked.write_text(json.dumps(first_sessions(load_questions(data, 1)[0], sessions)) + "\n", "utf-8")
    done = {row["memory"]: row for row in json.loads(rows.read_text("utf-8"))} if rows.exists() else {}
    for name in (name for name in only or ARMS if name not in done):
        settings = load_config(config, ["modules.generator.temperature=0", *(overrides or []), *ARMS[name]])
        with get_context("spawn").Pool(1) as pool:  # a process of its own, so that its memory can be told apart
            done[name] = pool.apply(measured, (name, asked, settings, out))
        typer.echo(json.dumps(done[name]))
        rows.write_text(json.dumps([done[name] for name in ARMS if name in done], indent=1), "utf-8")
    table = [done[name] for name in ARMS if name in done]
    names = list(dict.fromkeys(name for row in table for name in row))
    for row in [names, ["---"] * len(names), *([row.get(name, "") for name in names] for row in table)]:
        typer.echo(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    typer.run(main)
