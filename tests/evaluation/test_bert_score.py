"""BERTScore with the real encoder, checked against an independent implementation."""

from __future__ import annotations

import numpy as np
import pytest

from ld_agent.config import Config
from ld_agent.errors import ModelError
from ld_agent.evaluation.bert_score import BertScore


@pytest.fixture(scope="module")
def scorer() -> BertScore:
    return BertScore(Config().encoder.model)


def token_vectors(text: str) -> list[np.ndarray]:
    """Return the unit vectors of a text's tokens, including [CLS] and [SEP], from sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    from ld_agent.backbones.weights import resolve_model

    model = SentenceTransformer(str(resolve_model(Config().encoder.model)), device="cpu")
    vectors = np.asarray(model.encode(text, output_value="token_embeddings"))
    return [v / np.linalg.norm(v) for v in vectors]


def test_greedy_matching_by_hand(scorer: BertScore):
    said, wanted = "I keep two old bees.", "She sold her bicycle"
    a, b = token_vectors(said), token_vectors(wanted)
    precision = np.mean([max(float(x @ y) for y in b) for x in a[1:-1]])
    recall = np.mean([max(float(x @ y) for x in a) for y in b[1:-1]])
    expected = 2 * precision * recall / (precision + recall)
    # In a batch with a longer text the padding must not count.
    longer = "Nobody at the harbour has ever seen a storm as long as the one of that year, and few wish to."
    assert scorer.f1([said, longer], [[wanted], [longer]]).parts[:, 0] == pytest.approx([expected, 1.0], abs=1e-5)


def test_similar_texts_score_higher_and_the_best_reference_counts(scorer: BertScore):
    near, far = "I have a dog.", "The train leaves at nine."
    found = scorer.f1(["I own a puppy."] * 3, [[near], [far], [far, near]]).parts[:, 0]
    assert found[0] > found[1] + 0.1
    assert found[2] == found[0]
    assert scorer.f1([""], [[near]]).overall == 0.0


def test_unknown_models_are_rejected():
    with pytest.raises(ModelError, match="nowhere"):
        BertScore("./nowhere")
