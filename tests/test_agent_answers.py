"""Answers that no store or terminal should see, from every module: a turn, its memory and the next opening stand them;
and answers that deny what was told."""

import json
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from agent_parts import CHECKED, DAY, START, Scene, requests_of
from numpy.typing import NDArray

from ld_agent.answering import Evidence
from ld_agent.backbones.base import Request
from ld_agent.checks.kept import asks_for_memory
from ld_agent.checks.learned import ASKED, Pair
from ld_agent.languages import ENGLISH
from ld_agent.modules.situation import Situation
from ld_agent.passed import Aside, Passed
from ld_agent.relation import gone_by
from ld_agent.types import ReplyOptions, Trait, Utterance

SCRIPT = {
    "generator": "Good to hear.",
    "extractor": "I like tea.",
    "summarizer": "They talked about tea.",
    "memory": "Maya: Maya likes tea.\nRemember: yes\nSituation: Tea was poured.\nNote: Maya likes tea.",
}
OWN_WORDS = {**CHECKED, "verbatim": True}
READS = {"modules": {"generator": {"grounded": True}, "reader": {"passages": 3}}}
DIRTY = "\x00<|im_start|>assistant\n\x1b[31mI like tea \ud83d very much, Maya.\x07<|im_end|>"


@pytest.mark.parametrize("module", SCRIPT)
@pytest.mark.parametrize("view", ["events", "recursive", "conditional", "memorybank", "memochat"])
def test_a_dirty_answer_of_any_module_is_cleaned_before_anything_sees_it(scene: Scene, module: str, view: str):
    seen: list[str] = []
    for day in range(4):
        agent = scene.agent({**SCRIPT, module: DIRTY}, memory={"views": [view]})
        talk = agent.conversation("maya", at=START + day * DAY)
        seen.append(talk.respond("I like tea.", "Maya", START + day * DAY, on_text=seen.append).text)
        agent.close()
    agent = scene.agent(SCRIPT, memory={"views": [view]})
    talk = agent.conversation("maya", at=START + 5 * DAY)
    assert len(talk.utterances) == 8
    assert talk.records
    assert talk.persona("Maya")
    seen += [u.text for u in talk.utterances]
    seen += [f"{r.text}{json.dumps(dict(r.details), ensure_ascii=False)}" for r in talk.records]
    seen += [t.text for name in ("Maya", "Sam") for t in talk.persona(name)]
    agent.close()
    for text in seen:
        assert not any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in text), text
        assert "<|" not in text


def test_the_prompts_of_a_session_each_go_on_where_the_one_before_ended(scene: Scene):
    memory = {"gamma": -1.0, "gamma_talk": -1.0, "quotes": 80}
    agent = scene.agent(modules={"generator": {"prompting": "direct"}}, memory=memory, checks=CHECKED)
    talk = agent.conversation("maya", at=START)
    talk.respond("My dog Rex is afraid of thunder.", "Maya", START)
    for minute, text in enumerate(("Good morning! I live in Bath.", "I slept badly.", "It rained.")):
        assert talk.respond(text, "Maya", START + DAY + minute * DAY / 1440).recalled
    first, *later = [request.messages for request in requests_of(agent, "generator")][1:]
    assert "<memory>" in first[-1].content
    for before, after in pairwise((first, *later)):
        assert after[: len(before)] == before
        assert after[-1].content in ("I slept badly.", "It rained."), "neither recalled again nor quoted"


def test_small_talk_recalls_only_what_is_near_to_it(scene: Scene):
    agent = scene.agent(SCRIPT, checks=CHECKED)
    talk = agent.conversation("maya", at=START)
    talk.respond("My dog Rex is afraid of thunder.", "Maya", START)
    recalled = [
        bool(talk.respond(text, "Maya", START + day * DAY).recalled)
        for day, text in enumerate(
            ("Nice weather, isn't it?", "Who is afraid of thunder?", "Rex hid from the thunder."), 1
        )
    ]
    assert recalled == [False, True, True]


def test_an_answer_about_a_person_is_what_was_said_before_anyone_sees_it(scene: Scene):
    agent = scene.agent({**SCRIPT, "generator": "Your dog is called Rex."}, checks=CHECKED, **READS)
    talk = agent.conversation("maya", at=START)
    talk.respond("I moved to Oslo.", "Maya", START)
    pieces: list[str] = []
    reply = talk.respond("What's my dog called?", "Maya", START, on_text=pieces.append)
    assert reply.text == "".join(pieces) == ENGLISH.words.not_told
    talk.respond("My dog is called Rex.", "Maya", START)
    assert talk.respond("What's my dog called?", "Maya", START).text == "Your dog is called Rex.", "just said"


def test_whether_a_message_asks_for_memory_is_judged_once_for_a_prompt(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    talk = scene.agent(SCRIPT, checks=CHECKED, **READS).conversation("maya", at=START)
    check, judged = talk.relation.check, list[str]()
    assert check is not None
    probabilities = check.probabilities

    def judging(pairs: Sequence[Pair]) -> NDArray[np.float32]:
        judged.extend(claim for lines, claim in pairs if lines is ASKED)
        return probabilities(pairs)

    monkeypatch.setattr(check, "probabilities", judging)
    talk.messages("What's my dog called?", "Maya", START)
    assert judged == ["What's my dog called?"]
    talk.reply(START)
    assert judged == ["What's my dog called?"] * 2


def test_where_somebody_lives_is_not_read_in_a_line_that_a_later_one_has_ended(scene: Scene):
    lives, moved = "I live in Bristol, in a flat where I live alone.", "I moved to Bath last weekend."

    def reads(request: Request) -> str:
        text = request.messages[-1].content
        return next((f"You live in {city}." for city in ("Bristol", "Bath") if city in text), "NOT_SAID")

    def extracts(request: Request) -> str:
        return next((said for said in (lives, moved) if said in request.messages[-1].content), "NO_TRAIT")

    script = {**SCRIPT, "reader": reads, "extractor": extracts}
    grounded = {"modules": {"generator": {"grounded": True}, "reader": {"passages": 1}}}
    talk = scene.agent(script, checks=CHECKED, **grounded).conversation("maya", at=START)
    for day, text in enumerate((lives, moved)):
        talk.respond(text, "Maya", START + day * DAY)
    talk.end_session()
    assert lives not in [trait.text for trait in talk.persona("Maya")]
    assert talk.respond("Where do I live now?", "Maya", START + 9 * DAY).text == "You live in Bath."


def test_the_reader_sees_what_ended_a_line_right_after_it(scene: Scene):
    has, lost = "I keep six quail on the balcony.", "A magpie killed my six quail on the balcony, I keep none now."
    script = {**SCRIPT, "extractor": lambda asked: next((s for s in (has, lost) if s in str(asked)), "NO_TRAIT")}
    agent = scene.agent(script, checks=CHECKED, **READS)
    talk = agent.conversation("maya", at=START)
    for day, text in enumerate((has, lost)):
        talk.respond(text, "Maya", START + day * DAY)
        talk.end_session()
    assert [trait.text for trait in talk.persona("Maya", history=True) if trait.ended_by] == [has]
    talk.respond("How many quail do I keep on the balcony?", "Maya", START + 9 * DAY)
    shown = [request.messages[-1].content for request in requests_of(agent, "reader")]
    assert any(f"Maya: {has}\nMaya: {lost}" in text for text in shown)


def test_a_line_tells_what_holds_until_the_day_that_a_later_one_named():
    def told(text: str, until: int) -> Trait:
        days = {"at": START, "last_at": START, "holds_until": START + until * DAY, "ended_by": "u3"}
        return Trait("t1", "Maya", text, source="u1", **days)

    lives, works = told("I live in Bristol.", 9), told("I am a nurse.", 5)
    found = [gone_by(START + day * DAY, [lives, works]) for day in (4, 5, 9)]
    assert found == [{}, {"u1": "I am a nurse."}, {"u1": "I live in Bristol. I am a nurse."}]


@pytest.mark.parametrize(("answer", "stays"), [("Maya plays the clarinet.", False), ("Maya plays the violin.", True)])
def test_what_somebody_else_said_is_no_answer_about_a_person(scene: Scene, answer: str, stays: bool):
    script = {**SCRIPT, "extractor": "NO_TRAIT", "generator": answer}
    agent = scene.agent(script, checks=CHECKED, memory={"quotes": 80}, **READS)
    talk = agent.conversation("band", at=START)
    talk.observe("I play the violin.", "Maya", START)
    talk.observe("Nice, Maya! I play the clarinet.", "Ben", START)
    talk.end_session()
    reply = talk.respond("What does Maya play?", "Ben", START + DAY)
    assert (reply.text == answer) is stays
    assert ("clarinet" in reply.text) is False
    assert [quote.speaker for quote in reply.quotes] == ["Maya"], "only hers are quoted"


def test_a_question_about_a_person_by_name_asks_the_memory(scene: Scene):
    script = {**SCRIPT, "extractor": "NO_TRAIT", "generator": "She supports Ann when she is sad."}
    talk = scene.agent(script, checks=CHECKED, **READS).conversation("band", at=START)
    talk.observe("I play the violin.", "Maya", START)
    talk.end_session()
    question, check = "Who supports Maya when she is sad?", talk.relation.check
    assert check is not None
    assert not asks_for_memory(check, question), "the check alone misses it"
    assert talk.respond(question, "Ben", START + DAY).text == ENGLISH.words.not_told


def test_a_question_about_a_person_shows_their_traits_though_they_are_not_here(scene: Scene):
    told = "I play the violin."
    script = {**SCRIPT, "extractor": lambda asked: told if told in str(asked) else "NO_TRAIT"}
    talk = scene.agent(script, checks=CHECKED, **READS).conversation("band", at=START)
    talk.observe(told, "Maya", START)
    talk.end_session()
    assert talk.messages("What does Maya play?", "Ben", START + DAY).traits["Maya"] == (told,)
    assert "Maya" not in talk.messages("What a day!", "Ben", START + DAY).traits


TOLD = "I moved to the city of Oslo last year."


def forgetful(answer: str) -> Callable[[Request], str]:
    """A model that knows only what stands in the question itself."""

    def reply(request: Request) -> str:
        told = "Oslo" in request.messages[-1].content.rpartition("\n\n")[2]
        return answer if told else "I don't think you've told me that."

    return reply


@pytest.mark.parametrize(
    ("question", "answer", "reply"),
    [
        ("Which city did I move to last year?", "You moved to Oslo.", "You moved to Oslo."),
        (
            "Which city did I move to last year?",
            "You moved to Bergen.",
            f'I\'m not sure, but you once told me: "{TOLD.replace("last year", "in 2023")}"',
        ),
        ("What is my dog called?", "You moved to Oslo.", ENGLISH.words.not_told),  # nothing told bears on it
        ("Do you like cities?", "You moved to Oslo.", "I don't think you've told me that."),  # does not ask for it
    ],
)
def test_a_denial_of_something_said_is_retried_or_quoted(scene: Scene, question: str, answer: str, reply: str):
    script = {"generator": forgetful(answer), "extractor": "NO_TRAIT", "reader": "NOT_SAID"}
    agent = scene.agent(script, checks=CHECKED, memory={"quotes": 80}, **READS)
    talk = agent.conversation("maya", at=START)
    talk.observe(TOLD, "Maya", START)
    talk.observe("How lovely!", "Sam", START)
    pieces: list[str] = []
    found = talk.respond(question, "Maya", START + 7 * DAY, on_text=pieces.append)
    assert found.text == "".join(pieces) == reply
    assert any("asked again" in note for note in found.notes) == (reply == answer)


class Probability:
    """A check that finds every claim equally likely."""

    def __init__(self, supported: float) -> None:
        self.supported = supported

    def probabilities(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        return np.full((len(pairs), 3), self.supported, np.float32)


@pytest.mark.parametrize(("likely", "supported"), [(0.35, False), (0.45, True)])
def test_an_answer_from_a_whole_prompt_must_be_surer_than_one_read_in_a_passage(likely: float, supported: bool):
    heard = Utterance("u2", "Maya", "What does my neighbour do?", START, session=2)
    told = Utterance("u1", "Maya", "My neighbour is a diver.", START, session=1)
    evidence = Evidence(Probability(likely), Situation("Sam", heard), [(told,)])  # type: ignore[arg-type]
    assert (evidence.support("He is a diver."), evidence.each(["He is a diver."])) == (supported, [True])


def test_a_number_that_nobody_told_is_not_read():
    heard = Utterance("u2", "Maya", "How old are my 3 cousins?", START, session=2)
    told = Utterance("u1", "Maya", "They are seventeen and 19.", START, session=1)
    evidence = Evidence(Probability(0.9), Situation("Sam", heard), [(told,)] * 3)  # type: ignore[arg-type]
    answers = ["Your 3 cousins are 17 and nineteen.", "They are both teenagers.", "They are 17 and 25."]
    assert evidence.each(answers) == [True, True, False]


def test_what_came_from_a_document_is_not_put_into_the_askers_mouth(scene: Scene):
    script = {"generator": forgetful("You moved to Oslo."), "extractor": "NO_TRAIT", "reader": "NOT_SAID"}
    agent = scene.agent(script, checks=CHECKED, memory={"quotes": 80}, **READS)
    talk = agent.conversation("maya", at=START)
    talk.observe(TOLD, "Maya", START, channel="document")
    found = talk.respond("Which city did I move to last year?", "Maya", START + 7 * DAY)
    assert found.quotes
    assert found.text == ENGLISH.words.not_told


@pytest.mark.parametrize(("attribution", "kept"), [(True, []), (False, ["I have a son named Jakob."])])
def test_what_the_agent_says_of_others_is_none_of_its_traits_unless_as_published(
    scene: Scene, attribution: bool, kept: list[str]
):
    agent = scene.agent({"extractor": "I have a son named Jakob."}, personas={"attribution": attribution})
    talk = agent.conversation("maya", at=START)
    talk.observe("Your son Jakob must be four by now!", talk.agent_name, START)
    talk.resume()
    assert [trait.text for trait in talk.persona(talk.agent_name)] == kept


def test_nor_are_its_words_about_others(scene: Scene):
    talk = scene.agent({"extractor": "NO_TRAIT"}, checks=OWN_WORDS).conversation("maya", at=START)
    talk.observe("My dog Biscuit is at home.", "Maya", START)
    talk.observe("She's a three-year-old beagle, and she's a good dog.", talk.agent_name, START)
    talk.end_session()
    assert talk.persona(talk.agent_name) == []


def test_what_the_agent_says_of_itself_is_its_trait_also_before_a_question(scene: Scene):
    talk = scene.agent({"extractor": "I adopted a dog."}).conversation("maya", at=START)
    talk.observe("That is great! I adopted a dog last year. Do you have pets?", talk.agent_name, START)
    talk.resume()
    assert [trait.text for trait in talk.persona(talk.agent_name)] == ["I adopted a dog."]


@pytest.mark.parametrize("checks", [CHECKED, {"adapter": None}])
def test_what_was_passed_on_is_no_trait_of_who_passes_it_on(scene: Scene, checks: dict[str, str | None]):
    talk = scene.agent(checks=checks).conversation("maya", at=START)
    said = "[forwarded from Lena] I am a nurse in Bergen.", "> I keep bees.\nI keep six hens.", "[forwarded] I row."
    for text in said:
        talk.observe(text, "Maya", START, channel="import")
    talk.resume()
    assert [trait.text for trait in talk.persona("Maya")] == ["I keep six hens."]


@pytest.mark.parametrize(
    ("question", "given", "answer"),
    [
        ("What is my job now?", ("You work as a librarian.", "You are a gardener."), "You are a gardener."),
        ("What was my former job?", ("You were a librarian.", "You are a gardener."), "You were a librarian."),
    ],
)
def test_what_has_ended_supports_answers_about_then_only(
    scene: Scene, question: str, given: tuple[str, str], answer: str
):
    said = iter(given)  # the second only if the first will not do
    grounded = {"generator": {"grounded": True, "prompting": "direct"}}
    agent = scene.agent(
        {"extractor": "NO_TRAIT", "generator": lambda _: next(said)}, modules=grounded, checks=OWN_WORDS
    )
    talk = agent.conversation("maya", at=START)
    for day, text in enumerate(
        ("I work as a librarian in the town library.", "I don't work at the library now. I'm a gardener.")
    ):
        talk.observe(text, "Maya", START + day * DAY)
        talk.end_session()
    assert [trait.text for trait in talk.persona("Maya")] == ["I don't work at the library now.", "I'm a gardener."]
    assert talk.respond(question, "Maya", START + 30 * DAY).text == answer


def test_asked_what_was_before_a_line_that_has_ended_is_read_without_what_ended_it(scene: Scene):
    def read(request: Request) -> str:
        shown = request.messages[-1].content
        return "You worked at El Molino." if "pastry" in shown and "maths" not in shown else "You teach maths."

    talk = scene.agent({"reader": read, "extractor": "NO_TRAIT"}, checks=OWN_WORDS, **READS).conversation("maya")
    told = "I am a pastry chef at El Molino.", "I have left El Molino. Since 2 March 2024 I teach maths at a school."
    for day, text in enumerate(told):
        talk.observe(text, "Maya", START + day * DAY)
        talk.end_session()
    assert talk.respond("Where do I work?", "Maya", START + 30 * DAY).text == "You teach maths."
    assert talk.respond("Where did I work before?", "Maya", START + 30 * DAY).text == "You worked at El Molino."


def test_whether_something_is_so_is_answered_with_the_words_that_decide_it(scene: Scene):
    modules = {"generator": {"grounded": True}, "reader": {"passages": 3}}
    agent = scene.agent({**SCRIPT, "generator": "No, you've got a parrot."}, modules=modules, checks=CHECKED)
    talk = agent.conversation("maya", at=START)
    told = "We gave Kiwi to my aunt, so there's no parrot any more."
    talk.observe(told, "Maya", START)
    talk.end_session()
    reply = talk.respond("Do we still have a parrot?", "Maya", START + 30 * DAY)
    assert reply.text == ENGLISH.words.reason.format(told=told)
    assert f"decided by: {told}" in reply.notes


def test_what_has_ended_decides_nothing_and_neither_does_a_question(scene: Scene):
    modules = {"generator": {"grounded": True}, "reader": {"passages": 3}}
    agent = scene.agent(
        {**SCRIPT, "generator": "Yes.", "extractor": ["NO_TRAIT", "NO_TRAIT"]}, modules=modules, checks=CHECKED
    )
    talk = agent.conversation("maya", at=START)
    over = "hens and cockerel have all gone to a farmer near bath, the neighbours complained one time too many"
    for day, text in enumerate(("we keep six hens and one very rude cockerel", over)):
        talk.observe(text, "Maya", START + day * DAY)
        talk.end_session()
    talk.respond("When did we give the hens away?", "Maya", START + 30 * DAY)
    reply = talk.respond("Do I still keep hens?", "Maya", START + 30 * DAY)
    assert reply.text == ENGLISH.words.reason.format(told=over)


@pytest.mark.parametrize(
    ("later", "quoted"),
    [
        ("Well, the allotment's gone the way of the dodo. Council wants flats on it.", True),  # perhaps it has ended
        ("My niece has a new bike, a red one.", False),
    ],
)
def test_where_it_is_not_sure_whether_something_still_is_so_both_lines_are_quoted(
    scene: Scene, later: str, quoted: bool
):
    agent = scene.agent({"generator": "Yes.", "extractor": "NO_TRAIT"}, checks=CHECKED, **READS)
    talk = agent.conversation("maya", at=START)
    told = "We've got an allotment up at Heeley, plot 14, mostly leeks."
    for day, text in enumerate((told, later)):
        talk.observe(text, "Maya", START + day * DAY)
        talk.end_session()
    reply = talk.respond("Have we still got the allotment?", "Maya", START + 30 * DAY)
    assert reply.text == ENGLISH.words.reason.format(told=f"{told} {later}" if quoted else told)


def test_no_question_is_quoted_as_what_decides(scene: Scene):
    talk = scene.agent({"generator": "Zbyszek does."}, **READS, checks=CHECKED).conversation("maya")
    talk.observe("My father-in-law Zbyszek smokes like a chimney. I never touched a cigarette.", at=START)
    talk.end_session()
    talk.respond("Who smokes in my family?", at=START + 30 * DAY)
    assert "Who smokes" not in talk.respond("Do I smoke?", at=START + 30 * DAY).text


def test_what_decides_is_quoted_with_what_ended_some_of_it(scene: Scene):
    told, later = "Booked! In July I am walking the Faroe Islands.", "Nothing but physio for me till autumn."
    script = {**SCRIPT, "extractor": lambda asked: told if told in str(asked) else "NO_TRAIT"}
    talk = scene.agent(script, checks=CHECKED, **READS).conversation("maya", at=START)
    for day, text in enumerate((told, later)):
        talk.observe(text, "Maya", START + day * DAY)
        talk.end_session()
    question = "Am I walking the Faroe Islands in July?"
    assert talk.respond(question, "Maya", START + 9 * DAY).text == ENGLISH.words.reason.format(told=told)
    [trait] = [one for one in talk.persona("Maya") if "Faroe" in one.text]
    talk.relation.bank.end(trait.id, START + DAY, "u2")
    reply = talk.respond(question, "Maya", START + 10 * DAY)
    assert reply.text == ENGLISH.words.reason.format(told=f"{told} {later}")


@pytest.mark.parametrize(
    ("read", "reply"),
    [
        ("The tide is at its highest at 16:20.", "The tide is at its highest at 16:20."),
        ("It is at 9:45.", "Good to hear."),
    ],
)
def test_what_a_tool_found_is_read_by_the_reader_and_checked(scene: Scene, read: str, reply: str):
    asked = "When is high tide?"
    found = Aside(asked, "tides", "high tide: 16:20, low tide: 10:05", {"role": "tool", "tool_call_id": "c1"})
    agent = scene.agent({**SCRIPT, "reader": read}, checks=CHECKED, **READS)
    talk, pieces = agent.conversation("maya", at=START), list[str]()
    options = ReplyOptions(passed=Passed(asides=(found,)))
    assert talk.respond(asked, "Maya", START, options=options, on_text=pieces.append).text == "".join(pieces) == reply
    assert [u.text for u in agent.store.open_utterances(talk.key)] == [asked, reply]
