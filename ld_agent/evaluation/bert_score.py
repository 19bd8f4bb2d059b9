"""BERTScore (Zhang et al., 2020) with any encoder: greedy matching of token vectors by cosine similarity.

Equals the reference implementation without rescaling and idf weights: special tokens can be matched but are not counted.
The score depends on the encoder and its layer, so report both with it. Knows no run and no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ld_agent.errors import ModelError
from ld_agent.evaluation.metrics import Measure, References, mean

BATCH = 32


class BertScore:
    """Compute BERTScore with one encoder.

    Args:
        model: hub id, local directory or ``package:NAME/PATH``.
        layer: number of the layer to take vectors from; None: the last (the paper uses 17 of roberta-large).
    """

    def __init__(self, model: str, layer: int | None = None) -> None:
        from ld_agent.backbones.quiet import quiet_transformers
        from ld_agent.backbones.weights import resolve_model

        source = resolve_model(model)
        self.name = model if layer is None else f"{model}, layer {layer}"
        with quiet_transformers():
            from transformers import AutoModel, AutoTokenizer

            try:
                self._tokenizer: Any = AutoTokenizer.from_pretrained(source)
                self._model: Any = AutoModel.from_pretrained(source).eval()
            except Exception as exc:  # transformers, safetensors and the hub client share no base class
                reason = (str(exc).strip().splitlines() or [type(exc).__name__])[0][:200]
                raise ModelError(f"encoder {model!r} for BERTScore cannot be loaded ({reason}); name another") from exc
        layers = int(self._model.config.num_hidden_layers)
        if layer is not None and not 0 <= layer <= layers:
            raise ModelError(f"layer {layer} of {model!r} does not exist; it has layers 0 to {layers}")
        self._layer = layers if layer is None else layer
        self._vectors: dict[str, tuple[Any, Any]] = {}

    def f1(self, predictions: Sequence[str], references: References) -> Measure:
        """Return the mean F1 against the best reference, in [-1, 1] and usually well above 0."""
        self._encode([*predictions, *(text for texts in references for text in texts)])
        return mean(
            max((self._pair(prediction, reference) for reference in texts), default=0.0)
            for prediction, texts in zip(predictions, references, strict=True)
        )

    def _pair(self, prediction: str, reference: str) -> float:
        predicted, predicted_mask = self._vectors[prediction]
        expected, expected_mask = self._vectors[reference]
        if not predicted_mask.any() or not expected_mask.any():
            return 0.0
        similarity = predicted @ expected.T
        precision = float(similarity.max(dim=1).values[predicted_mask].mean())
        recall = float(similarity.max(dim=0).values[expected_mask].mean())
        return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0

    def _encode(self, texts: Sequence[str]) -> None:
        """Cache the unit vectors (tokens, width) of every text and the mask of its counted tokens."""
        import torch

        missing = sorted({text for text in texts if text not in self._vectors}, key=len)
        window = min(int(self._tokenizer.model_max_length), int(self._model.config.max_position_embeddings))
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            inputs = self._tokenizer(
                batch,
                padding=True,
                truncation=True,
                max_length=window,
                return_tensors="pt",
                return_special_tokens_mask=True,
            )
            special = inputs.pop("special_tokens_mask").bool()
            with torch.inference_mode():
                states = self._model(**inputs, output_hidden_states=True).hidden_states[self._layer]
            unit = torch.nn.functional.normalize(states.float(), dim=-1)
            for row, text in enumerate(batch):
                present = inputs["attention_mask"][row].bool()
                self._vectors[text] = (unit[row][present], ~special[row][present])
