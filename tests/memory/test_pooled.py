"""Encoders of transformers by their pooling, and DPR's two encoders in dense retrieval; tiny models of the real classes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from backbones.tiny_models import byte_tokenizer

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import load_config
from ld_agent.errors import ModelError
from ld_agent.memory.encoder import SentenceEncoder

TEXTS = ["I keep bees.", "The train to Rome was late again.", "Hm."]


def saved(folder: Path, kind: str, seed: int, **settings: Any) -> Path:
    import transformers

    torch.manual_seed(seed)
    config = getattr(transformers, kind).config_class(
        vocab_size=259, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=128, pad_token_id=2, initializer_range=0.5, **settings,
    )  # fmt: skip
    getattr(transformers, kind)(config).save_pretrained(folder)
    byte_tokenizer(None).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("encoders")
    return {
        "simcse": saved(folder / "simcse", "BertModel", 0),
        "context": saved(folder / "context", "DPRContextEncoder", 1),
        "question": saved(folder / "question", "DPRQuestionEncoder", 2),
        "projected": saved(folder / "projected", "DPRQuestionEncoder", 3, projection_dim=8),
    }


def states(folder: Path, kind: str, text: str) -> Any:
    """What transformers itself makes of one text."""
    import transformers

    model = getattr(transformers, kind).from_pretrained(folder).eval()
    given = transformers.AutoTokenizer.from_pretrained(folder)([text], return_tensors="pt")
    with torch.inference_mode():
        return model(**given)


def unit(vector: Any) -> np.ndarray[Any, Any]:
    values = np.asarray(vector, np.float32)
    return values / np.linalg.norm(values)


def test_a_model_is_pooled_as_configured(models: dict[str, Path]):
    vectors = {
        pooling: SentenceEncoder(str(models["simcse"]), pooling=pooling).encode(TEXTS)
        for pooling in ("pooler", "cls", "mean")
    }
    for row, text in enumerate(TEXTS):
        out = states(models["simcse"], "BertModel", text)
        expected = {"pooler": out.pooler_output[0], "cls": out.last_hidden_state[0, 0]}
        for pooling, vector in expected.items():
            assert vectors[pooling][row] == pytest.approx(unit(vector), abs=1e-5)
        assert vectors["mean"][row] == pytest.approx(unit(out.last_hidden_state[0].mean(0)), abs=1e-5)


def test_dense_retrieval_compares_dprs_questions_with_its_contexts(models: dict[str, Path]):
    config = load_config(
        "dpr",
        [
            f"encoder.model={models['context']}", f"encoder.question_model={models['question']}",
            'store.path=":memory:"', "memory.k=9", "memory.query_turns=1",
        ],
    )  # fmt: skip
    at = datetime(2026, 1, 5, tzinfo=UTC)
    with Agent.from_config(config, backbone=ScriptedBackbone({"generator": "Oh."})) as agent:
        conversation = agent.conversation("c")
        for minute, text in enumerate(TEXTS):
            conversation.observe(text, "Ann", at + timedelta(minutes=minute))
        conversation.end_session()
        recalled = conversation.recall("Where do I go?", at=at + timedelta(days=3))
    question = unit(states(models["question"], "DPRQuestionEncoder", "Where do I go?").pooler_output[0])
    by_hand = {
        f"Ann: {text}": float(
            question @ unit(states(models["context"], "DPRContextEncoder", f"Ann: {text}").pooler_output[0])
        )
        for text in TEXTS
    }
    assert {r.record.text: r.score for r in recalled} == pytest.approx(by_hand, abs=1e-4)
    assert [r.record.text for r in recalled] == sorted(by_hand, key=lambda text: -by_hand[text])


def test_encoders_that_do_not_fit_are_refused(models: dict[str, Path]):
    with pytest.raises(ModelError, match=r"question_model .* has 8 dimensions, encoder\.model .* 16"):
        SentenceEncoder(str(models["context"]), pooling="pooler", question_model=str(models["projected"]))
    with pytest.raises(ModelError, match=r"need encoder\.pooling=pooler"):
        SentenceEncoder(str(models["context"]))
    with pytest.raises(ModelError, match="has no tokens to pool"):
        SentenceEncoder(str(models["context"]), pooling="cls")
