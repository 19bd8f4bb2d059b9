"""BERTScore (Zhang et al., 2020) with any encoder: greedy matching of the token vectors of its last layer by cosine similarity.

Equals the reference implementation without rescaling and idf weights: special tokens can be matched but are not counted.
The score depends on the encoder, so report both. Knows no run and no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ld_agent.errors import ModelError
from ld_agent.evaluation.metrics import Measure, References, mean


class BertScore:
    """Compute BERTScore with one encoder: a hub id, a local directory or ``package:NAME/PATH``."""

    def __init__(self, model: str) -> None:
        from ld_agent.backbones.quiet import quiet_transformers
        from ld_agent.backbones.weights import resolve_model

        self.name, source = model, resolve_model(model)
        with quiet_transformers():
            from sentence_transformers import SentenceTransformer

            try:
                self._model: Any = SentenceTransformer(str(source))
            except Exception as exc:  # transformers, safetensors and the hub client share no base class
                reason = (str(exc).strip().splitlines() or [type(exc).__name__])[0][:200]
                raise ModelError(f"encoder {model!r} for BERTScore cannot be loaded ({reason}); name another") from exc

    def f1(self, predictions: Sequence[str], references: References) -> Measure:
        """Return the mean F1 against the best reference, in [-1, 1] and usually well above 0."""
        texts = list(dict.fromkeys([*predictions, *(text for texts in references for text in texts)]))
        tokens = self._model.encode(texts, output_value="token_embeddings", show_progress_bar=False)
        vectors = dict(zip(texts, tokens, strict=True))

        def pair(prediction: str, reference: str) -> float:
            import torch

            unit = [torch.nn.functional.normalize(vectors[text].float(), dim=-1) for text in (prediction, reference)]
            predicted, expected = self._counted(prediction), self._counted(reference)
            if not any(predicted) or not any(expected):
                return 0.0
            similarity = unit[0] @ unit[1].T
            precision = float(similarity.max(dim=1).values[predicted].mean())
            recall = float(similarity.max(dim=0).values[expected].mean())
            return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0

        return mean(
            max((pair(prediction, reference) for reference in texts), default=0.0)
            for prediction, texts in zip(predictions, references, strict=True)
        )

    def _counted(self, text: str) -> list[bool]:
        """Which tokens of a text count: those that are not special."""
        tokens = self._model.tokenizer(
            text, truncation=True, max_length=self._model.max_seq_length, return_special_tokens_mask=True
        )
        return [not special for special in tokens["special_tokens_mask"]]
