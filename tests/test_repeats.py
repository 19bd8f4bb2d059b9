"""A reply does not say again what the agent said before in the conversation, or what it was just told."""

from collections.abc import Iterator

import pytest
from agent_parts import DAY, START, Scene, requests_of

from ld_agent.agent import Agent
from ld_agent.answering import REPEATED
from ld_agent.config import load_config
from ld_agent.errors import BackboneError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.modules.replies import only_repeats, repeatable
from ld_agent.steps import run_many
from ld_agent.types import Reply

WALK = "I like long walks by the sea."
NEW = "We could go there on Sunday."


def told(scene: Scene, answers: list[str], heard: list[str], **settings: object) -> list[tuple[Reply, str]]:
    """The replies to utterances of successive days, and what was streamed of each."""
    left = iter(answers)
    agent = scene.agent({"generator": lambda request: next(left)}, **settings)
    talk, replies = agent.conversation("maya"), []
    for day, text in enumerate(heard):
        pieces: list[str] = []
        replies.append((talk.respond(text, at=START + day * DAY, on_text=pieces.append), "".join(pieces)))
    assert next(left, None) is None
    for reply, streamed in replies:
        assert reply.text.startswith(streamed)
    assert [u.text for u in talk.utterances if u.speaker == "Sam"] == [reply.text for reply, _ in replies]
    return replies


def test_a_sentence_of_an_earlier_session_is_left_out(scene: Scene):
    [_, (reply, streamed)] = told(scene, [WALK, f"Good! {WALK} {NEW}"], ["The sea was rough.", "The sea was calm."])
    assert reply.text == streamed == f"Good! {NEW}"
    assert reply.notes == ()


def test_an_answer_that_says_nothing_new_is_asked_for_once_more(scene: Scene):
    heard = ["The sea was rough.", "The sea was calm.", "It rained."]
    replies = told(scene, [WALK, f"Good! {WALK}", f"Well! {NEW}", "How was it?"], heard)
    assert [reply.text for reply, _ in replies] == [WALK, f"Well! {NEW}", "How was it?"]
    assert replies[1][1] == f"Well! {NEW}"
    assert [REPEATED in reply.notes for reply, _ in replies] == [False, True, False]
    first, again = requests_of(scene.opened[0], "generator")[1:3]
    assert first.messages == again.messages
    assert (first.temperature, again.temperature > 0, again.seed) == (0, True, first.seed + 1)


@pytest.mark.parametrize("second", [WALK, "", BackboneError("gone")])
def test_a_repetition_is_kept_if_the_second_answer_is_no_better(scene: Scene, second: str | BackboneError):
    answers = iter([WALK, WALK, second])

    def answer(request: object) -> str:
        answer = next(answers)
        if isinstance(answer, BackboneError):
            raise answer
        return answer

    talk = scene.agent({"generator": answer}).conversation("maya")
    talk.respond("The sea was rough.", at=START)
    assert talk.respond("The sea was calm.", at=START + DAY).text == WALK
    assert next(answers, None) is None


@pytest.mark.parametrize("grounded", [True, False])
@pytest.mark.parametrize("question", ["Where do I work?", "Do you remember where I work?", "Is there a port in Ghent?"])
def test_a_fact_may_be_stated_again(scene: Scene, question: str, grounded: bool):
    stated = "You work at a hospital in Ghent, with a port. It is in Ghent."
    heard = [f"I work at a hospital in Ghent, which has a port. {question}"] * 2
    replies = told(scene, [stated] * 2, heard, **{"modules.generator.grounded": grounded})
    assert [reply.text for reply, _ in replies] == [stated] * 2


def test_what_the_user_just_said_is_not_said_back(scene: Scene):
    [(reply, _)] = told(scene, [f"{WALK} Do you swim in winter? Me too."], [f"{WALK} Do you swim in winter?"])
    assert reply.text == "Do you swim in winter? Me too."


def test_a_sentence_is_said_once_in_a_reply(scene: Scene):
    [(reply, _)] = told(scene, [f"{WALK} {WALK} {NEW} {WALK}"], ["The sea was rough."])
    assert reply.text == f"{WALK} {NEW}"


def test_repetitions_can_be_kept(scene: Scene):
    settings = {"modules.generator.repeats": True}
    replies = told(scene, [WALK, f"{WALK} {WALK}"], ["The sea was rough.", WALK], **settings)
    assert replies[1][0].text == f"{WALK} {WALK}"


class TestEmbeddedModel:
    """A greedy model gives the same answer to the same prompt, so a person who says the same would hear the same."""

    HEARD = "I have moved to the coast."

    @pytest.fixture(scope="class")
    def agent(self, encoder: SentenceEncoder, topics: TopicExtractor) -> Iterator[Agent]:
        greedy = ["modules.generator.temperature=0"]
        forgetful = [*greedy, "memory.views=[none]", "memory.quotes=0", "personas.cap=0", "memory.close_on_exit=false"]
        config = load_config("default", [*forgetful, "store.path=:memory:"])
        with Agent(config, encoder=encoder, topics=topics) as agent:
            yield agent

    def test_every_session_has_its_own_reply(self, agent: Agent):
        talk = agent.conversation("maya")
        replies = [talk.respond(self.HEARD, at=START + day * DAY) for day in range(2)]
        assert replies[0].prompt == replies[1].prompt
        assert [REPEATED in reply.notes for reply in replies] == [False, True]
        texts = [reply.text for reply in replies]
        assert not only_repeats(texts[1], repeatable([texts[0]]))

        streaming = agent.conversation("streamed")
        for day, text in enumerate(texts):
            stream = streaming.stream(self.HEARD, at=START + day * DAY)
            assert "".join(stream) == text

        both = {name: agent.conversation(name) for name in ("ann", "ben")}
        for day, text in enumerate(texts):
            turns = ((name, talk.turn(self.HEARD, at=START + day * DAY)) for name, talk in both.items())
            assert [reply.text for _, reply in run_many(turns, agent.models.complete, 2)] == [text] * 2
