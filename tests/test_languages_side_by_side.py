"""Agents of several languages in one process: each reads texts as if it were alone."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ld_agent import Agent, load_config
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.checks.attribution import speaks_of_self
from ld_agent.checks.contradiction import contradicts
from ld_agent.checks.invention import asks_what_was_told
from ld_agent.conversation import Conversation
from ld_agent.languages import language
from ld_agent.memory.dates import periods
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.index.lexical import stems
from ld_agent.memory.topics import TopicExtractor
from ld_agent.text import stems_of

FRENCH = str(Path(__file__).parents[1] / "data" / "samples" / "languages" / "fr")
AT = datetime(2026, 1, 5, tzinfo=UTC)
TOLD = {
    "en": ("I use Google.", "I use Google Plus."),  # "plus" denies in French
    FRENCH: ("Je fume.", "Je ne fume plus."),
    "zh": ("我喜欢喝咖啡。", "我不喝咖啡了。"),
    "ko": ("저는 서울에 살아요.", "저는 부산으로 이사했어요."),
}
KEPT = {code: list(told) if code == "en" else [told[1]] for code, told in TOLD.items()}
ASKED = {
    "en": ("Who is Ma?", "A cellist called Zed."),  # "ma" is "my" in French
    FRENCH: ("Comment s'appelle mon chien ?", "Il s'appelle Zed."),
    "zh": ("我的狗叫什么名字？", "它叫豆豆。"),
    "ko": ("우리 강아지 이름이 뭐예요?", "강아지 이름은 초코예요."),
}
ANSWERED = {"en": "A cellist called Zed."} | {code: language(code).words.not_told for code in TOLD if code != "en"}


def _talk(code: str, within: ExitStack, encoder: SentenceEncoder, topics: TopicExtractor) -> Conversation:
    def extracted(request: Request) -> str:
        shown = request.messages[-1].content
        return next((told for told in reversed(TOLD[code]) if told in shown), "NO_TRAIT")

    script = {"extractor": extracted, "generator": ASKED[code][1], "summarizer": "-", "reader": "NOT_SAID"}
    config = load_config("default", ["store.path=:memory:", f"language={code}", "modules.generator.grounded=true"])
    agent = Agent(config, backbone=ScriptedBackbone(script), encoder=encoder, topics=topics)
    return within.enter_context(agent).conversation("one")


def test_agents_of_four_languages_in_turns_behave_as_each_alone(encoder: SentenceEncoder, topics: TopicExtractor):
    with ExitStack() as within:
        talks = {code: _talk(code, within, encoder, topics) for code in TOLD}
        for number in range(2):
            for code, talk in talks.items():
                talk.observe(TOLD[code][number], at=AT + timedelta(minutes=number))
        replies = {code: talks[code].respond(ASKED[code][0], at=AT + timedelta(minutes=5)).text for code in talks}
        assert replies == ANSWERED
        kept = {code: [trait.text for trait in talk.persona("User")] for code, talk in talks.items()}
        assert kept == KEPT


def test_a_text_is_read_by_the_languages_of_its_agent_only():
    english, french, chinese, korean = (language(code).reading for code in ("en", FRENCH, "zh", "ko"))
    assert not contradicts("I use Google Plus.", "I use Google.", english)
    assert contradicts("Je ne fume plus.", "Je fume.", french)
    assert contradicts("我不喝咖啡了。", "我喜欢喝咖啡。", chinese)
    assert not asks_what_was_told("Who is Ma?", english)
    assert asks_what_was_told("Comment s'appelle ma mère ?", french)
    assert asks_what_was_told("우리 강아지 이름이 뭐예요?", korean)
    assert not english.pattern("negated").search("Rien van Nunen sings.")
    assert french.pattern("negated").search("Il ne dit rien.")
    assert not speaks_of_self("Yo-Yo Ma plays the cello.", english)
    assert speaks_of_self("Voici ma mère.", french)
    assert stems("Paris est une ville", english) == ["pari", "est", "une", "vill"]
    assert stems("les chevaux", french) == ["cheval"]
    assert "une" in stems_of("Une", english)
    assert not periods("mardi dernier", AT, english)
    assert periods("mardi dernier", AT, french)


def test_an_agent_reads_every_shipped_language_besides_its_own():
    for code in ("en", "zh", "ko", "auto", FRENCH):
        reading = language(code).reading
        assert contradicts("I moved to Rome.", "I live in Oslo.", reading)
        assert contradicts("我搬到了北京。", "我住在上海。", reading)
        assert contradicts("저는 부산으로 이사했어요.", "저는 서울에 살아요.", reading)


def test_an_agents_own_language_goes_first():
    assert language(FRENCH).reading.stemmer_of(["chevaux"]) == "french", "no stop word says which language it is"
    assert language("en").reading.stemmer_of(["chevaux"]) == "english"
