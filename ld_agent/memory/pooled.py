"""Encoders that sentence-transformers does not handle: the first token's state or the pooler's output of any encoder of
transformers, and DPR's two encoders. Knows texts and vectors only.
"""

from __future__ import annotations

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
        self.max_seq_length = min(LONGEST, *limits)
        self._dimension = int(getattr(config, "projection_dim", 0) or config.hidden_size)

    def get_embedding_dimension(self) -> int:
        return self._dimension

    def encode(self, texts: list[str], batch_size: int = 32, **options: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return (n, dimension) unit vectors."""
        import torch

        batches = []
        for start in range(0, len(texts), batch_size):
            given = self.tokenizer(
                texts[start : start + batch_size],
                padding=True,
                truncation=True,
                max_length=self.max_seq_length,
                return_tensors="pt",
            ).to(self._device)
            with torch.inference_mode():
                batches.append(self._pooled(self._model(**given), given["attention_mask"]).float().cpu())
        vectors = torch.nn.functional.normalize(torch.cat(batches), dim=-1)
        return np.asarray(vectors.numpy(), np.float32)

    def _pooled(self, out: Any, mask: Any) -> Any:
        if self._pooling == "pooler":
            return out.pooler_output
        if self._pooling == "cls":
            return out.last_hidden_state[:, 0]
        weights = mask.unsqueeze(-1).to(out.last_hidden_state.dtype)
        return (out.last_hidden_state * weights).sum(1) / weights.sum(1).clamp(min=1)
