"""French, the worked example of docs/languages.md, a complete folder outside the package; and it beside other languages."""

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ld_agent import Agent, load_config
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.checks.statements import says_unknown
from ld_agent.conversation import Conversation
from ld_agent.languages import language
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.text import stems

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


@pytest.mark.parametrize(
    "reply", ["Je crois que vous ne me l'avez pas dit.", "Tu ne me l’as jamais dit.", "Je n'en sais rien."]
)
def test_a_french_denial_is_one(reply: str):
    assert says_unknown(reply, READING)


def test_french_words_are_searched_by_their_stems_and_english_ones_by_theirs():
    assert stems("Nous avons adopté les chevaux de ma voisine.", READING) == ["adopt", "cheval", "voisin"]
    assert stems("We adopted the horses of my neighbours.", READING) == ["adopt", "hors", "neighbour"]
    assert stems("chevaux", READING)  # nothing says which language it is


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


def test_agents_of_four_languages_in_turns_behave_as_each_alone(encoder: SentenceEncoder, topics: TopicExtractor):
    script = {"extractor": "NO_TRAIT", "generator": "", "summarizer": "-"}

    def talk(code: str) -> Conversation:
        config = load_config("default", ["store.path=:memory:", f"language={code}", "checks.adapter=null"])
        agent = Agent(config, backbone=ScriptedBackbone(script), encoder=encoder, topics=topics)
        return within.enter_context(agent).conversation("one")

    with ExitStack() as within:
        talks = {code: talk(code) for code in ("en", FRENCH, "zh", "ko")}
        for number in range(2):
            said = {code: one.respond("?", at=AT + timedelta(minutes=number)).text for code, one in talks.items()}
            assert said == {code: language(code).words.speechless for code in talks}


def test_an_agents_own_language_goes_first():
    assert stems("chevaux", language(FRENCH).reading) == ["cheval"], "no stop word says which language it is"
    assert stems("chevaux", language("en").reading) == ["chevaux"]
