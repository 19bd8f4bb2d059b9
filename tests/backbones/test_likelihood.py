"""How likely answers are: against the same model called plainly, token by token."""

from pathlib import Path

import pytest
import torch

from ld_agent.backbones.base import Message, Request
from ld_agent.backbones.local import LocalBackbone
from ld_agent.errors import BackboneError

PROMPTS = ["Hi", "What did the goats do at the concert, and who saw it?", "And then?"]
ANSWERS = ["They ran away.", "ok", "Nobody <|end|> knows, I think."]


def request(text: str, adapter: str | None = None) -> Request:
    return Request((Message("user", text),), "generator", 8, adapter)


def plain(backbone: LocalBackbone, folder: Path, adapter: Path | None, text: str, answer: str) -> tuple[float, int]:
    """Negative log-likelihood by one call of transformers (and PEFT) for every token."""
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    seq2seq = AutoConfig.from_pretrained(folder).is_encoder_decoder
    model = (AutoModelForSeq2SeqLM if seq2seq else AutoModelForCausalLM).from_pretrained(folder).eval()
    if adapter is not None:
        model = PeftModel.from_pretrained(model, adapter)
    prompt = backbone.encode_messages([Message("user", text)])
    target = backbone._tokens.encode_answer(answer)
    nats = 0.0
    for place, token in enumerate(target):
        with torch.no_grad():
            if seq2seq:
                before = torch.tensor([[1, *target[:place]]])
                logits = model(input_ids=torch.tensor([prompt]), decoder_input_ids=before).logits
            else:
                logits = model(input_ids=torch.tensor([[*prompt, *target[:place]]])).logits
        nats -= float(logits[0, -1].float().log_softmax(-1)[token])
    return nats, len(target)


def test_a_batch_is_as_likely_as_one_token_at_a_time(tiny_llama: Path, adapters: dict[str, Path]):
    backbone = LocalBackbone(
        str(tiny_llama), dtype="float32", adapters={name: str(folder) for name, folder in adapters.items()}
    )
    asked = [request(PROMPTS[0]), request(PROMPTS[1], "extractor"), request(PROMPTS[2], "summarizer")]
    found = backbone.likelihoods(asked, ANSWERS)
    for text, answer, given, likely in zip(PROMPTS, ANSWERS, asked, found, strict=True):
        nats, tokens = plain(backbone, tiny_llama, adapters[given.adapter] if given.adapter else None, text, answer)
        assert (likely.nats, likely.tokens) == (pytest.approx(nats, rel=1e-4), tokens)
    assert backbone.generate(asked)  # and generation goes on as before


def test_an_encoder_decoder_model(tiny_bart: Path):
    backbone = LocalBackbone(str(tiny_bart), dtype="float32")
    found = backbone.likelihoods([request(text) for text in PROMPTS], ANSWERS)
    for text, answer, likely in zip(PROMPTS, ANSWERS, found, strict=True):
        nats, tokens = plain(backbone, tiny_bart, None, text, answer)
        assert (likely.nats, likely.tokens) == (pytest.approx(nats, rel=1e-4), tokens)


def test_a_prompt_beyond_the_window_gives_way_to_the_answer(tiny_llama: Path):
    backbone = LocalBackbone(str(tiny_llama), dtype="float32", context_window=64)
    [long] = backbone.likelihoods([request("many words " * 50)], ["They ran away."])
    assert long.tokens == len("They ran away.") + 1


def test_unknown_adapters_and_closed_backbones(tiny_llama: Path):
    backbone = LocalBackbone(str(tiny_llama))
    with pytest.raises(BackboneError, match="no adapter 'mine'"):
        backbone.likelihoods([request("Hi", "mine")], ["Hello"])
    backbone.close()
    with pytest.raises(BackboneError, match="closed"):
        backbone.likelihoods([request("Hi")], ["Hello"])
