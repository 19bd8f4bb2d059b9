"""French, the worked example of docs/languages.md, a complete folder outside the package; and it beside other languages."""

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ld_agent import Agent, load_config
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.checks.contradiction import contradicts, slot
from ld_agent.checks.invention import asks_what_was_told, supported
from ld_agent.checks.not_knowing import says_unknown
from ld_agent.checks.referents import referring
from ld_agent.checks.subjects import corrected
from ld_agent.conversation import Conversation
from ld_agent.languages import language
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.index.lexical import stems
from ld_agent.memory.topics import TopicExtractor

AT = datetime(2026, 1, 5, tzinfo=UTC)
DECIDES = "memory.conditional.decision=with_reply"
FRENCH = str(Path(__file__).parents[1] / "data" / "samples" / "languages" / "fr")
READING = language(FRENCH).reading


def test_french_names_times_and_lists_are_french():
    french = language(FRENCH)
    assert french.named(["Zoé", "Luc", "Anne"]) == "Zoé, Luc et Anne"
    assert french.ago(AT, AT + timedelta(days=3)) == "il y a 3 jours"
    assert french.prompt("summarizer").render(people="Zoé", lines=[("Zoé", "Salut")], part=0, parts=1)


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("Suffisant : 1, 3", "Enough: 1, 3"),
        ("Suffisant : aucun", "Enough: None"),
        ("Manque : Rome", "Missing: Rome"),
        ("Réponse : Salut !\nÀ retenir : oui", "Reply: Salut !\nRemember: Yes"),
        ("Aucun trait.", "NO_TRAIT"),
        ("Enough: 2", "Enough: 2"),
        ("Je note : rien de neuf.", "Je note : rien de neuf."),
    ],
)
def test_french_answers_are_read_as_english_ones(answer: str, read: str):
    assert language(FRENCH).canonical(answer) == read


def test_french_facts_replace_each_other_and_french_questions_are_checked(topics: TopicExtractor):
    assert slot("J'habite à Lyon.", READING) == ("home", "lyon")
    assert contradicts("J’habite à Nantes.", "J'habite à Lyon.", READING)
    assert contradicts("Je ne fume plus.", "Je fume.", READING)
    assert not contradicts("J'ai un chien.", "J'ai deux chiens.", READING)
    question = "Comment s'appelle mon chien ?"
    assert asks_what_was_told(question, READING)
    assert asks_what_was_told("Dis-moi le nom de mon chien.", READING)
    assert not asks_what_was_told("Dis-moi bonjour.", READING)
    assert not asks_what_was_told("Qu'est-ce que tu me conseilles pour mon chien ?", READING)
    shown = f"J'ai un chien qui s'appelle Biscuit. {question}"
    assert [
        supported(said, shown, topics.extract, READING, question)[0] for said in ("C'est Biscuit.", "C'est bien Rex.")
    ] == ["C'est Biscuit.", ""]
    for said in ("Je crois que vous ne me l'avez pas dit.", "Tu ne me l’as jamais dit.", "Je n'en sais rien."):
        assert says_unknown(said, READING)


def test_french_words_are_searched_by_their_stems_and_english_ones_by_theirs():
    assert stems("Nous avons adopté les chevaux de ma voisine.", READING) == ["adopt", "cheval", "voisin"]
    assert stems("We adopted the horses of my neighbours.", READING) == ["adopt", "hors", "neighbour"]
    assert stems("chevaux", READING)  # nothing says which language it is


@pytest.mark.parametrize(
    ("said", "trait", "kept"),
    [
        ("Ma sœur Anne est infirmière.", "Ma sœur est infirmière.", "Ma sœur Anne est infirmière."),
        ("Mon mari s'appelle Luc. Il enseigne.", "Il enseigne.", "Mon mari Luc enseigne."),
        ("Ma femme travaille à la bibliothèque.", "Je travaille à la bibliothèque.", None),
    ],
)
def test_whom_a_french_trait_is_about(said: str, trait: str, kept: str | None):
    assert referring(trait, said, READING) == kept


def test_a_clause_of_a_french_summary_is_given_to_whoever_said_it():
    lines = [("Zoé", "Je répare des motos anciennes."), ("Luc", "Je vis à Lyon avec ma sœur.")]
    french = language(FRENCH)
    said = corrected(
        "Luc répare des motos anciennes.", lines, lambda texts: np.zeros((len(texts), 1), np.float32), french
    )
    assert said == "Zoé répare des motos anciennes."


def test_a_french_conversation_is_prompted_in_french_and_its_answers_are_understood():
    answers = ScriptedBackbone(
        {
            "generator": "Réponse : Quelle bonne nouvelle !\nÀ retenir : oui",
            "extractor": "Aucun trait.",
            "memory": "Lié : aucune\nSituation : Zoé a un chien.\nNote : Le chien de Zoé s'appelle Biscuit.",
            "summarizer": "Zoé a un chien.",
        }
    )
    config = load_config("conditional", ["store.path=:memory:", f"language={FRENCH}", "agent.user=Zoé", DECIDES])
    with Agent.from_config(config, backbone=answers) as agent:
        talk = agent.conversation("zoé")
        said = talk.respond("J'ai un chien qui s'appelle Biscuit.", at=AT).text
        talk.end_session()
        assert said == "Quelle bonne nouvelle !"
        assert talk.persona("Zoé") == []
        assert [r.text for r in talk.records] == ["Zoé a un chien. Le chien de Zoé s'appelle Biscuit."]
    asked = {request.module: request.messages[0].content for request in answers.requests}
    assert "un ami chaleureux" in asked["generator"]
    assert "Tu es la mémoire de Sam" in asked["memory"]


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
    settings = ["store.path=:memory:", f"language={code}", "modules.generator.grounded=true", "checks.adapter=null"]
    config = load_config("default", settings)
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


def test_an_agent_reads_every_shipped_language_besides_its_own():
    for code in ("en", "zh", "ko", "auto", FRENCH):
        reading = language(code).reading
        assert contradicts("I moved to Rome.", "I live in Oslo.", reading)
        assert contradicts("我搬到了北京。", "我住在上海。", reading)
        assert contradicts("저는 부산으로 이사했어요.", "저는 서울에 살아요.", reading)


def test_an_agents_own_language_goes_first():
    assert language(FRENCH).reading.stemmer_of(["chevaux"]) == "french", "no stop word says which language it is"
    assert language("en").reading.stemmer_of(["chevaux"]) == "english"
