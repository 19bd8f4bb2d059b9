"""What of a resent chat is new: lines by hand, ``u`` the person's and ``a`` the agent's."""

import pytest

from ld_agent.server.history import Comparison, Line, compare, is_task


def lines(text: str) -> list[Line]:
    """ "u:Hi a:Hello" as lines."""
    return [Line(part[0] == "a", part[2:]) for part in text.split()]


@pytest.mark.parametrize(
    ("stored", "sent", "expected"),
    [
        ("", "u:Hi", Comparison(0, 0)),
        ("u:Hi a:Hello", "u:Hi a:Hello u:Bees", Comparison(2, 0)),
        ("u:Hi a:Hello", "u:Bees", Comparison(2, 0)),  # a client that sends new lines only
        ("", "u:Hi a:Hello u:Bees", Comparison(0, 0, tuple(lines("u:Hi a:Hello")))),  # a chat begun elsewhere
        ("u:Hi a:Hello u:Bees a:Nice", "u:Hi a:Hello u:Goats", Comparison(2, 2)),  # edited
        ("u:Hi a:Hello u:Bees a:Nice", "u:Hi a:Hello u:Bees", Comparison(3, 1, answer_again=True)),  # regenerated
        ("u:Hi a:Hello u:Bees", "u:Hi a:Hello u:Bees", Comparison(3, 0, answer_again=True)),  # again, after a failure
        (
            "u:Hi a:Hello u:Bees a:Nice u:Why a:So",
            "u:Bees a:Nice u:Why a:So u:Ah",
            Comparison(6, 0),
        ),  # without its front
        ("u:Hi a:Hello", "u:Hi a:Bye u:Bees", Comparison(1, 1, tuple(lines("a:Bye")))),  # the agent's line was edited
        ("u:Hi a:Hello", "u:Other a:Chat u:Bees", Comparison(2, 0)),  # nothing in common: nothing is touched
        ("u:Hi a:Hello,there", "u:Hi a:Hello u:Bees", Comparison(2, 0)),  # an interrupted reply was seen in part
        ("u: a:Hello u:Bees a:", "u:Joao a:Hello u:Bees a:Nice u:Ah", Comparison(4, 0)),  # two lines were forgotten
        ("u: a:Hello", "u:Other a:Chat u:Bees", Comparison(2, 0)),  # a forgotten line alone is nothing in common
        ("u:Hi a:Hello", "u:Skis u:Snow u:Ice", Comparison(2, 0, tuple(lines("u:Skis u:Snow")))),  # a group's
        ("u:Hi a:Hello u:Ice", "u:Snow u:Ice", Comparison(3, 0, answer_again=True)),
        (  # of a group, a window of the last lines
            "u:Hi a:Hello u:Bees a:Nice",
            "u:Bees a:Nice u:Skis u:Snow",
            Comparison(4, 0, tuple(lines("u:Skis"))),
        ),
        ("u:Hi a:Hello u:Hi a:Again", "u:Hi a:Again u:Bees", Comparison(4, 0)),  # said twice: the latest place counts
    ],
)
def test_what_is_new(stored: str, sent: str, expected: Comparison):
    assert compare(lines(stored), lines(sent), whole=False) == expected


@pytest.mark.parametrize(
    ("stored", "sent", "expected"),
    [
        ("u:Hi a:Hello", "u:Hi", Comparison(1, 1, answer_again=True)),  # the first answer is regenerated
        ("u:Hi a:Hello", "u:Bees", Comparison(0, 2)),  # the first line is edited
    ],
)
def test_a_client_that_always_sends_the_whole_chat(stored: str, sent: str, expected: Comparison):
    assert compare(lines(stored), lines(sent), whole=True) == expected


@pytest.mark.parametrize("stored", ["Hello\nthere", "Hello there"])
def test_a_reply_in_two_messages_may_be_stored_as_one(stored: str):
    sent = lines("u:Hi a:Hello a:there u:Bees")
    assert compare([Line(False, "Hi"), Line(True, stored)], sent, whole=False) == Comparison(2, 0)
    assert compare(lines("u:Hi a:Hello a:there"), sent, whole=False) == Comparison(3, 0)


@pytest.mark.parametrize(("name", "replaced"), [("maya", 2), ("~ MAYA", 2), ("", 2), ("Omar", 0)])
def test_a_name_is_the_same_however_it_is_written(name: str, replaced: int):
    stored = [Line(n % 2 == 1, text, "Maya Sam".split()[n % 2]) for n, text in enumerate("Hi Hello Bees Nice".split())]
    sent = [Line(False, "Hi", name), Line(True, "Hello"), Line(False, "Goats", name)]
    assert compare(stored, sent, whole=False) == Comparison(4 - replaced, replaced)


@pytest.mark.parametrize(
    "text",
    [
        "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.",
        "Provide a concise, 5-word-or-less title for the conversation, using its same language.",
        "Create a concise title for this conversation:\n\nUser: Hi",
    ],
)
def test_jobs_of_chat_clients(text: str):
    assert is_task([Line(False, text)], "", streamed=False)
    assert not is_task([Line(False, text)], "", streamed=True)


@pytest.mark.parametrize(
    "text",
    [
        "What is my task today?",
        "### Task:\nRespond to the user query.\n<context>\nA document.\n</context>\nWhat does it say?",
    ],
)
def test_what_people_say_is_not_a_job(text: str):
    assert not is_task([Line(False, text)], "You are kind.", streamed=False)
