"""What models really say, read as traits; and the extractor's requests."""

from collections.abc import Callable

import pytest

from ld_agent.backbones.base import Completion, Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.languages import ENGLISH
from ld_agent.modules.base import Models
from ld_agent.modules.extractor import LONGEST_BEFORE, LONGEST_TRAIT, MOST_TRAITS, Extractor, grounded, parse_traits

READING = ENGLISH.reading

UTTERANCE = "My dog loves it in Rome."
DOG, ROME = "I have a dog.", "I live in Rome."

SHAPES = [
    ("I have a dog. I live in Rome.", (DOG, ROME)),
    ("i have a dog\ni live in Rome", (DOG, ROME)),
    ("1. I have a dog.\n2. I live in Rome.", (DOG, ROME)),
    ("(1) I have a dog.\n(2) I live in Rome.", (DOG, ROME)),
    ("1. I have a dog 2. I live in Rome", (DOG, ROME)),
    ("- I have a dog\n- I live in Rome", (DOG, ROME)),
    ("• I have a dog • I live in Rome", (DOG, ROME)),
    ("“I have a dog.”\n“I live in Rome.”", (DOG, ROME)),
    ("**I have a dog.**", (DOG,)),
    ("I have a dog; I live in Rome", (DOG, ROME)),
    ("I have a dog | I live in Rome", (DOG, ROME)),
    ("Traits: I have a dog. I live in Rome.", (DOG, ROME)),
    ("Traits:\n\n- I have a dog.\n\n- I live in Rome.\n\nLet me know if you need more on the dog!", (DOG, ROME)),
    ("**Traits:** I have a dog.", (DOG,)),
    ("Trait: I have a dog.\nTrait: I live in Rome.", (DOG, ROME)),
    ("Trait 1: I have a dog.\nTrait 2: I live in Rome.", (DOG, ROME)),
    ("Facts about the person: I have a dog.", (DOG,)),
    ("Sure! Here are the extracted traits: I have a dog.", (DOG,)),
    ("Yes, I have a dog.", (DOG,)),
    ("I have a dog. i have a dog! I HAVE A DOG", (DOG,)),
    ("I have a dog.\n\nThe dog is a clue that the person likes dogs.", (DOG,)),
    # examples of the prompt said back, or new ones made up
    ("I have a puppy. I walk by the river every morning.", ()),
    ("I have a dog.\n\nSentence: My cat hates Rome.\nTraits: I have a cat in Rome.", (DOG,)),
    ('I have a dog.\nThe person says: "Rome!"\nFacts about the person: I hate Rome.', (DOG,)),
    ("Sentence: My dog loves it in Rome.\nTraits: I have a dog.", (DOG,)),
    ("Sentence: My dog loves it in Rome. Traits: I have a dog.", (DOG,)),
    # a chain of thought
    ("Thought: The speaker owns a dog, which lasts.\nTraits: I have a dog.", (DOG,)),
    ("Thought: The traits: a dog.\nTraits: I have a dog. I live in Rome.", (DOG, ROME)),
    ("Thought: The speaker speaks of a dog in Rome and", ()),
    # questions, and talk about the task
    ("Do you have a dog?", ()),
    ('"Where in Rome?" I have a dog.', (DOG,)),
    ("The speaker is talking about a dog.", ()),
    ("I have a dog. The sentence says nothing else about Rome.", (DOG,)),
    # a denial, and a trait all the same
    ("NO_TRAIT. I have a dog.", (DOG,)),
    ("I have a dog.\nNO_TRAIT", (DOG,)),
    ("NO_TRAIT. The person only says that a dog loves Rome.", ()),
    # JSON
    ('{"traits": ["I have a dog.", "I live in Rome."]}', (DOG, ROME)),
    ('```json\n{"traits": ["I have a dog.", "I live in Rome."]}\n```', (DOG, ROME)),
    ('Here is the JSON: {"persona": "I have a dog. I live in Rome."}', (DOG, ROME)),
    ('["I have a dog.", "I live in Rome"]', (DOG, ROME)),
    ('[{"trait": "I have a dog."}, {"fact": "I live in Rome."}]', (DOG, ROME)),
    ('{"traits": ["I have a dog.", "I live in Rome.', (DOG, ROME)),
    ('{"traits": []}', ()),
    ("{}", ()),
    ('{"traits": [[["I have a dog."]], 5, null, true]}', (DOG,)),
    ('{"name": "save", "arguments": {"text": "I walk. I have a dog. I live in Rome."}}', ()),
    ('<tool_call>\n{"name": "save", "arguments": {"fact": "I have a dog."}}\n</tool_call>', ()),
    ('save_trait(text="I have a dog in Rome")', ()),
    ("[" * 20_000, ()),
    ("I have a dog called [x].", ("I have a dog called [x].",)),
    ('I have a dog. It ate ["', (DOG,)),
    # bounds
    ("I have a dog " + "o" * 5_000 + ".", ()),
    # nothing to read
    ("", ()),
    ("@@@ ###", ()),
    ("dog", ()),
    ("I have " + "a dog and " * LONGEST_TRAIT + "more.", ()),
]
NOTHING = (
    "NO_TRAIT.|no_trait|NO_TRAITS|No traits.|NoTrait|NO-TRAIT|No trait found about the dog.|Traits: NO_TRAIT|'NO_TRAIT'|"
    "**NO_TRAIT**|1. NO_TRAIT|NO_TRAIT (the person asks about a dog)|There are no lasting traits in what is said of the dog.|"
    "No personality trait|None.|N/A|no|Nothing.|null|No personal information about the dog is given.|No persona.|"
    "Thought: A dog.\nTraits: NO_TRAIT|没有特征|无|なし|없음|No facts about the dog.|NO_FACT|ＮＯ＿ＴＲＡＩＴ。|ｎｏｎｅ"
).split("|")


@pytest.mark.parametrize(("answer", "expected"), SHAPES)
def test_the_shapes_of_an_answer(answer: str, expected: tuple[str, ...]):
    assert parse_traits(answer, UTTERANCE, READING) == expected


@pytest.mark.parametrize("answer", NOTHING)
def test_the_ways_of_saying_that_there_is_nothing(answer: str):
    assert parse_traits(answer, f"{UTTERANCE} 没有", READING) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I see Dr. Smith every week. I am 3.5 years sober.", ("I see Dr. Smith every week.", "I am 3.5 years sober.")),
        ("I live in the U.S. I have a dog.", ("I live in the U.S.", "I have a dog.")),
        ("I work from 9 a.m. to 5 p.m. at a bank.", ("I work from 9 a.m. to 5 p.m. at a bank.",)),
        ("I have no kids. No kids at home.", ("I have no kids.", "No kids at home.")),  # "no" is no interjection there
        ("No, I have kids.", ("I have kids.",)),
        ("I love C++ and Node.js.", ("I love C++ and Node.js.",)),
        ("我有一只狗。我住在罗马。", ("我有一只狗。", "我住在罗马。")),
        ("Я живу в Риме.", ("Я живу в Риме.",)),
    ],
)
def test_sentence_boundaries(text: str, expected: tuple[str, ...]):
    assert parse_traits(text, text, READING) == expected


def test_no_more_traits_than_the_bound():
    answer = "\n".join(f"{i}. I have {i} dogs." for i in range(2, 12))
    assert parse_traits(answer, f"dogs: {answer}", READING) == tuple(
        f"I have {i} dogs." for i in range(2, 2 + MOST_TRAITS)
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("They own a dog and will keep it.", ()),
        ("They own a dog and will keep it.\nTraits: I have a dog.", (DOG,)),
        ('["I have a dog."]', ()),
        ('{"thought": "A dog.", "traits": ["I have a dog."]}', (DOG,)),
    ],
)
def test_a_chain_of_thought_counts_only_after_its_marker(answer: str, expected: tuple[str, ...]):
    assert parse_traits(answer, UTTERANCE, READING, reasoned=True) == expected


@pytest.mark.parametrize("garbage", ["dog " * 2500, " " * 10_000 + "x", "1. " * 3400, "\"'“" * 3400, "no a b " * 1500])
def test_ten_kilobytes_of_garbage_give_little_and_end_soon(garbage: str):
    assert all(len(trait) < 500 for trait in parse_traits(garbage, "dog", READING))


@pytest.mark.parametrize(
    ("trait", "utterance", "expected"),
    [
        ("I have a dog.", "The dogs are barking again.", True),  # word forms
        ("I am a teacher.", "I've been teaching for years.", True),
        ("I turned 30.", "30 candles, can you believe it?", True),
        ("I have a cat.", "The dogs are barking again.", False),
        ("I have it all.", "You have it, I have not.", False),  # only words without meaning are shared
        ("我有一只狗。", "是的", True),  # where words end is not known
    ],
)
def test_grounded(trait: str, utterance: str, expected: bool):
    assert grounded(trait, utterance, READING) is expected


@pytest.fixture
def extractor(config) -> Callable[..., tuple[Extractor, ScriptedBackbone]]:
    def make(answer, prompting: str = "direct", window: int = 4096, grounded_only: bool = True):
        backbone = ScriptedBackbone({"extractor": answer}, context_window=window)
        return Extractor(Models(config(), backbone), prompting, grounded_only), backbone

    return make


def utterance_of(request: Request) -> str:
    """The text between the quotes of the last message."""
    return request.messages[-1].content.partition('"')[2].rpartition('"')[0]


def test_utterances_are_read_in_one_batch_in_order(extractor):
    made, backbone = extractor(["I have a dog.", "NO_TRAIT", "I live in Rome."])
    assert made.extract(["my dog", "hi!", "Rome is my home"]) == [(DOG,), (), (ROME,)]
    assert backbone.batches == [3]
    assert [utterance_of(r) for r in backbone.requests] == ["my dog", "hi!", "Rome is my home"]
    assert {r.module for r in backbone.requests} == {"extractor"}


def test_all_but_the_last_message_is_constant(extractor):
    made, backbone = extractor("NO_TRAIT")
    made.extract(["my dog", "my cat"])
    first, second = backbone.requests
    assert first.cacheable_prefix == len(first.messages) - 1
    assert first.messages[:-1] == second.messages[:-1]
    assert first.messages[-1] != second.messages[-1]


def test_a_tuned_extractor_reads_what_an_utterance_answers(extractor):
    made, backbone = extractor("I like dogs.", "brief", grounded_only=False)
    assert made.extract(["me too", "hi"], ["I love dogs!", ""]) == [("I like dogs.",)] * 2
    answering, alone = [r.messages[-1].content for r in backbone.requests]
    assert (answering, alone) == ("In answer to: I love dogs!\nme too", "hi")


def test_of_a_long_utterance_the_end_is_what_was_answered(extractor):
    made, backbone = extractor("NO_TRAIT", "brief")
    made.extract(["me too"], [f"{'word ' * 1000}Do you like dogs?"])
    line = backbone.requests[0].messages[-1].content.splitlines()[0]
    assert line.endswith(" word Do you like dogs?")
    assert len(line) <= len("In answer to: ") + LONGEST_BEFORE


def test_what_was_answered_stands_before_the_first_part_and_never_takes_the_room_of_the_utterance(extractor):
    words = [f"word{i}" for i in range(600)]
    made, backbone = extractor("NO_TRAIT", "brief", 300)
    made.extract([" ".join(words), words[0]], ["Go on?", "so " * 80])
    *parts, short = [r.messages[-1].content for r in backbone.requests]
    assert parts[0].startswith("In answer to: Go on?\n")
    assert not any("In answer to" in part for part in parts[1:])
    assert " ".join(part.splitlines()[-1] for part in parts).split() == words
    assert short.endswith("word0")
    assert all(backbone.count_tokens(r.messages) <= 300 - r.max_new_tokens for r in backbone.requests)


def test_a_trait_may_come_from_the_previous_utterance_if_shown(extractor):
    for prompting, found in (("brief", ("I love dogs.",)), ("direct", ())):
        made, _ = extractor("I love dogs.", prompting)
        assert made.extract(["Me too!"], ["I have dogs. You?"]) == [found]


def test_white_space_asks_nobody(extractor):
    made, backbone = extractor("I have a dog.")
    assert made.extract(["  \n ", "my dog"]) == [(), (DOG,)]
    assert len(backbone.requests) == 1
    assert made.extract([]) == []


def test_the_chain_of_thought_has_its_own_prompt(extractor):
    made, backbone = extractor("Thought: A dog lasts.\nTraits: I have a dog.", "chain_of_thought")
    assert made.extract(["my dog"]) == [(DOG,)]
    assert 'begins with "Traits:"' in backbone.requests[0].messages[0].content
    made, _ = extractor("They own a dog.", "chain_of_thought")
    assert made.extract(["my dog"]) == [()]


def test_grounding_can_be_left_out(extractor):
    assert extractor("I have a dog.")[0].extract(["he barks"]) == [()]
    assert extractor("I have a dog.", grounded_only=False)[0].extract(["he barks"]) == [(DOG,)]


def test_an_answer_cut_off_loses_its_unfinished_sentence(config):
    class Cut(ScriptedBackbone):
        def generate(self, requests):
            return [Completion("I have a dog. I love that", 1, 1, "length") for _ in requests]

    assert Extractor(Models(config(), Cut())).extract([UTTERANCE]) == [(DOG,)]


@pytest.mark.parametrize("prompting", ["direct", "chain_of_thought"])
def test_a_long_utterance_is_read_in_parts_that_fit_and_nothing_is_left_out(extractor, prompting: str):
    words = [f"word{i}" for i in range(2000)]
    made, backbone = extractor(lambda request: f"Traits: I like {utterance_of(request).split()[0]}.", prompting, 600)
    [traits] = made.extract([" ".join(words)])
    assert [w for r in backbone.requests for w in utterance_of(r).split()] == words
    assert all(backbone.count_tokens(r.messages) <= 600 - r.max_new_tokens for r in backbone.requests)
    assert len(traits) == len(backbone.requests) > 1
    assert len(backbone.batches) == 1


def test_a_word_without_end_is_cut_anywhere(config):
    class Characters(ScriptedBackbone):
        def count_tokens(self, messages):
            return sum(len(m.content) for m in messages)

    backbone = Characters({"extractor": "NO_TRAIT"}, context_window=6000)
    Extractor(Models(config(), backbone)).extract(["狗" * 100_000])
    assert "".join(utterance_of(r) for r in backbone.requests) == "狗" * 100_000


def test_a_window_smaller_than_the_instructions_still_gets_the_utterance(extractor):
    made, backbone = extractor("I have a dog.", window=64)
    assert made.extract(["my dog"]) == [(DOG,)]
    made.extract(["my dog " * 200])
    assert "".join(utterance_of(r) for r in backbone.requests[1:]).replace(" ", "") == "mydog" * 200
