"""Any text takes bounded time: a turn on 200,000 characters of anything, and every regular expression on what trips it."""

import re
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from agent_parts import CHECKED, DAY, START, Scene
from expressions import RUNS, expressions, inputs
from texts import TEXTS

from ld_agent.backbones.base import Request
from ld_agent.checks.learned import ASKED, StatementCheck
from ld_agent.checks.slips import Corrections
from ld_agent.files import shipped_path
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import MOST_WINDOWS, SentenceEncoder
from ld_agent.memory.when import dated

LONG = 200_000
TURN = 0.5
"""Seconds of processor time that a turn may take beside its models, on a machine with nothing else to do."""
BUSY = 4
"""How much longer it may take in the quick part, beside whatever else runs."""
EACH = 2_000, 0.01
"""Characters for each expression, and the seconds that it may take; in the whole programme ten times as many."""
QUICK = ("quotes", "commas", "I am a", "opened", "digits", "newlines", "dates", "forget")


def seconds(work: Callable[[], object]) -> float:
    """The processor time of this thread, without that of others."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


class Counted:
    """In place of the encoder and the learned check: what they would read, in characters."""

    name, dimension, verbatim = "counted", 8, True

    def __init__(self) -> None:
        self.pairs = 0
        self.corrections = Corrections(shipped_path("data/adapters/check"))

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        counts = np.array(
            [[len(text) % 7 + 1] + [text[:2000].count(c) for c in "aeiounr"] for text in texts], np.float32
        )
        counts = counts.reshape(len(texts), self.dimension)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)

    def encode_query(self, text: str) -> np.ndarray:
        return self.encode([text])[0]

    def knows_script(self, text: str) -> bool:
        return True

    def probabilities(self, pairs: Sequence[object]) -> np.ndarray:
        self.pairs += len(pairs)
        return np.tile(np.array([[0.9, 0.05, 0.05]], np.float32), (len(pairs), 1))

    def extract(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        assert all(len(text) < LONG for text in texts), "topics are those of a text's beginning"
        return [() for _ in texts]


def confessing(request: Request) -> str:
    return "I am a baker. I have a dog. I live in Oslo. I like my garden. I am fifty. I sing in a choir."


@pytest.mark.parametrize("kind", TEXTS)
def test_a_turn_on_any_text_takes_bounded_time(config, monkeypatch: pytest.MonkeyPatch, kind: str, whole: bool) -> None:
    if not (whole or kind in QUICK):
        pytest.skip("in the whole programme")
    counted = Counted()
    monkeypatch.setattr("ld_agent.running.resources.Resources.check_for", lambda self, code: counted)
    scene = Scene(config, counted, counted)
    script = {"extractor": confessing, "reader": "no", "generator": "How nice."}
    maya = scene.agent(script, **{"modules.reader.passages": 4}).conversation("maya")
    maya.respond("I keep bees.", "Maya", START)
    text = TEXTS[kind](LONG)
    text = text if text.strip() else f"{text}x"
    turns = (
        lambda: maya.respond(text, "Maya", START),
        lambda: maya.respond("What do I keep?", "Maya", START),
        lambda: maya.end_session(),
        lambda: maya.respond("What did I tell you about my bees before?", "Maya", START + DAY),
        lambda: maya.respond(f"{text}?", "Maya", START + DAY),
    )
    for number, turn in enumerate(turns):
        assert seconds(turn) < (TURN if whole else BUSY * TURN), number
    assert counted.pairs < 1500
    assert [u.text for u in maya.utterances if len(u.text) >= LONG] == [text, f"{text}?"]
    scene.close()


def test_every_expression_takes_time_in_proportion_to_its_text(whole: bool) -> None:
    length, most = (10 * EACH[0], 10 * EACH[1]) if whole else EACH
    runs = RUNS if whole else RUNS[:4]
    tried, slow = 0, dict[str, str]()
    for place, (pattern, longest) in expressions().items():
        texts = dict.fromkeys(text[: longest or None] for text in inputs(pattern, min(length, longest or length), runs))
        tried += len(texts)
        for text in texts:
            read = partial(pattern.fullmatch if longest else pattern.findall, text)
            if all(seconds(read) > most for _ in range(3)):
                slow[place] = f"{text[:20]!r} … {text[-5:]!r}"
                break
    assert not slow
    assert tried > 3_000


def test_an_expression_that_backtracks_is_found() -> None:
    for bad in map(re.compile, (r"\s*x\s*\s*=", r"\n\W*Sam:", r"(?:a+)+b")):
        # a nested repetition takes exponential time: 24 characters are enough
        texts = (part for text in inputs(bad, 8_000) for part in (text[:24] + text[-1:], text))
        assert any(seconds(partial(bad.search, text)) > EACH[1] for text in texts), bad


def test_the_encoder_reads_a_few_windows_of_a_long_text(encoder: SentenceEncoder) -> None:
    read = list[str]()
    encode = encoder._model.encode

    class Reading:
        def __getattr__(self, name: str) -> object:
            return getattr(model, name)

        def encode(self, windows: list[str], **more: object) -> object:
            read.extend(windows)
            return encode(windows, **more)

    model, encoder._model = encoder._model, Reading()
    try:
        vectors = encoder.encode([TEXTS[kind](LONG) for kind in ("digits", "han", "words", "emoji")])
    finally:
        encoder._model = model
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert len(read) <= 4 * MOST_WINDOWS
    assert max(map(len, read)) < 10_000


def test_the_check_reads_any_claim_and_any_lines() -> None:
    check = StatementCheck(CHECKED["adapter"])
    for text in ("word " * 3_000, "7" * 9_000, "我" * 3_000, "!" * 5_000):
        found = check.probabilities([(ASKED, text), ([("Maya", text)], text), ([("Maya", text)], "Maya: I sing.")])
        assert np.allclose(found.sum(axis=1), 1, atol=1e-3)


def test_a_relative_time_in_a_long_text_is_judged_by_its_clause() -> None:
    text = "we sang " * 100 + ", on Friday we will sing, " + "we sang " * 100
    assert "on 3 May 2024 we will sing" in dated(text, START, ENGLISH.reading)
