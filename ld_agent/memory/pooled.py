"""Encoders that sentence-transformers does not handle: the first token's state or the pooler's output of any encoder of
transformers, and DPR's two encoders. Knows texts and vectors only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 512
"""Maximum number of tokens if neither tokenizer nor model has a limit."""


class PooledTransformer:
    """An encoder of transformers with the part of sentence-transformers' interface that is used here.

    Args:
        source: hub id or directory.
        pooling: "mean" of the tokens, "cls" (the first token's state) or "pooler" (the output of the model's pooler).

    Raises:
        OSError, ValueError: the model cannot be loaded, or has no pooler.
    """

    def __init__(self, source: Path | str, pooling: str, device: str) -> None:
        import transformers

        config = transformers.AutoConfig.from_pretrained(source)
        named = (config.architectures or [""])[0]
        dpr = named if named in ("DPRContextEncoder", "DPRQuestionEncoder") else None
        loader = getattr(transformers, dpr) if dpr else transformers.AutoModel
        if dpr is not None and pooling != "pooler":
            raise ValueError(f"{named} has no tokens to pool; set encoder.pooling=pooler")
        self._model: Any = loader.from_pretrained(source).eval().to(device)
        if dpr is None and pooling == "pooler" and getattr(self._model, "pooler", None) is None:
            raise ValueError("the model has no pooler; set encoder.pooling=cls")
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(source)
        self._pooling, self._device = pooling, device
        limits = (self.tokenizer.model_max_length, getattr(config, "max_position_embeddings", LONGEST))
        self.max_seq_length = min(LONGEST, *limits, *_limit_of_its_training(source))
        self._dimension = int(getattr(config, "projection_dim", 0) or config.hidden_size)

    def get_embedding_dimension(self) -> int:
        return self._dimension

    def encode(self, texts: list[str], batch_size: int = 32, **options: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return (n, dimension) unit vectors."""
        import torch

        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))  # so that little is padded
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            given = self.tokenizer(
                [texts[n] for n in rows],
                padding=True,
                truncation=True,
                max_length=self.max_seq_length,
                return_tensors="pt",
            ).to(self._device)
            with torch.inference_mode():
                pooled = self._pooled(self._model(**given), given["attention_mask"]).float()
                vectors[rows] = torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy()
        return vectors

    def _pooled(self, out: Any, mask: Any) -> Any:
        if self._pooling == "pooler":
            return out.pooler_output
        if self._pooling == "cls":
            return out.last_hidden_state[:, 0]
        weights = mask.unsqueeze(-1).to(out.last_hidden_state.dtype)
        return (out.last_hidden_state * weights).sum(1) / weights.sum(1).clamp(min=1)


def _limit_of_its_training(source: Path | str) -> list[int]:
    """The number of tokens with which sentence-transformers reads the model, where its folder says so."""
    file = Path(source) / "sentence_bert_config.json"
    limit = json.loads(file.read_text("utf-8")).get("max_seq_length") if file.is_file() else None
    return [] if limit is None else [int(limit)]
