"""The text encoder with the real model: what it counts, what it keeps, and long texts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ld_agent.backbones.weights import resolve_model
from ld_agent.config import Config
from ld_agent.errors import ModelError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.pooled import PooledTransformer

MODEL = Config().encoder.model


@pytest.fixture(scope="module")
def small() -> SentenceEncoder:
    """An encoder that keeps four vectors."""
    return SentenceEncoder(MODEL, cache_size=4)


@pytest.fixture
def encoded(small: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every text that reaches the model behind ``small``, which begins with an empty cache."""
    small._cache.clear()
    seen: list[str] = []
    plain = small._model.encode

    def encode(texts, **options):
        seen.extend(texts)
        return plain(texts, **options)

    monkeypatch.setattr(small._model, "encode", encode)
    return seen


def test_vectors_have_unit_length_and_one_row_a_text(encoder: SentenceEncoder):
    vectors = encoder.encode(["I love tea.", "", "我有一只狗", "🎉", "x" * 5000, "I love tea."])
    assert (vectors.shape, vectors.dtype, encoder.dimension) == ((6, 384), np.float32, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(6), abs=1e-5)
    assert (vectors[0] == vectors[5]).all()


def test_the_default_gives_the_vectors_of_sentence_transformers_without_importing_it(encoder: SentenceEncoder):
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(resolve_model(MODEL)), device="cpu")
    texts = ["I keep bees.", "Hm.", "The train to Rome was late again. " * 9, "", "狗 donaudampfschifffahrt 🐕"] * 12
    assert isinstance(encoder._model, PooledTransformer)
    assert encoder._model.max_seq_length == theirs.max_seq_length
    expected = theirs.encode([*texts, "word " * 400], normalize_embeddings=True)
    assert np.allclose(encoder._model.encode([*texts, "word " * 400]), expected, atol=1e-6)


def test_no_texts_give_no_rows(encoder: SentenceEncoder):
    assert encoder.encode([]).shape == (0, 384)


def test_meaning_decides(encoder: SentenceEncoder):
    tea, chai, car = encoder.encode(["I love drinking tea.", "Tea is my favourite drink.", "The car needs new tyres."])
    assert tea @ chai > 0.6 > 0.3 > tea @ car


def test_each_text_is_encoded_once(small: SentenceEncoder, encoded: list[str]):
    small.encode(["a cat", "a dog", "a cat"])
    small.encode(["a dog"])
    small.encode(["a dog", "a bird"])
    assert encoded == ["a cat", "a dog", "a bird"]


def test_the_cache_is_bounded_and_forgets_the_longest_unused(small: SentenceEncoder, encoded: list[str]):
    small.encode(["one", "two", "three", "four"])
    small.encode(["one"])
    small.encode(["five"])  # drops "two"
    assert len(small._cache) == 4
    small.encode(["one", "three", "four", "five"])
    assert encoded == ["one", "two", "three", "four", "five"]
    small.encode(["two"])
    assert encoded[-1] == "two"


def test_more_texts_than_the_cache_holds_come_back_whole(small: SentenceEncoder, encoder: SentenceEncoder):
    texts = [f"number {i}" for i in range(9)]
    assert small.encode(texts) == pytest.approx(encoder.encode(texts), abs=1e-5)
    assert len(small._cache) == 4


def test_callers_cannot_change_what_is_kept(small: SentenceEncoder):
    first = small.encode(["keep me"])
    before = first.copy()
    first[:] = 0
    assert (small.encode(["keep me"]) == before).all()


def test_the_later_part_of_a_long_text_matters(encoder: SentenceEncoder):
    filler = "I like tea. " * 300
    plain, ending, about = encoder.encode(
        [filler, filler + "My rocket exploded over Norway. " * 60, "A rocket exploded."]
    )
    assert float(ending @ about) > float(plain @ about) + 0.1


def test_no_window_is_longer_than_the_model_reads(encoder: SentenceEncoder):
    hangul = "안녕하세요 " * 40  # 240 characters, 482 tokens: Unicode normalisation takes a syllable apart
    for text in (hangul, "狗" * 300, "I like tea. " * 300, "donaudampfschifffahrt " * 200):
        windows = encoder._windows(text)
        assert len(windows) > 1
        assert text.startswith(windows[0])
        assert text.rstrip().endswith(windows[-1])
        if text != hangul:  # there a border may fall within a syllable, which then stands on both sides
            assert "".join("".join(windows).split()) == "".join(text.split())
        assert max(len(encoder._model.tokenizer(w)["input_ids"]) for w in windows) <= encoder._model.max_seq_length


def test_threads_may_share_an_encoder(small: SentenceEncoder, encoder: SentenceEncoder):
    texts = [f"thread text {i % 7}" for i in range(42)]
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda text: small.encode([text])[0], texts))
    assert np.stack(rows) == pytest.approx(encoder.encode(texts), abs=1e-5)


def test_a_missing_model_is_named():
    with pytest.raises(ModelError, match="no-such-package"):
        SentenceEncoder("package:no-such-package/model")


def test_a_wrong_digest_is_refused():
    with pytest.raises(ModelError, match="0000"):
        SentenceEncoder(MODEL, sha256="0" * 64)


def test_numpy_leaves_the_cores_to_the_encoder(encoder: SentenceEncoder):
    from threadpoolctl import threadpool_info

    assert encoder.dimension
    assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {1}
