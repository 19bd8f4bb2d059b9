"""Converts a model in a GGUF file to a Hugging Face directory, tensor by tensor, so that it is never in memory whole.

Tensors with 4-bit groups are written twice: in 16 bits for any program, and as they are for decoding on a CPU
(`local.four_bit_groups`). Knows formats, and nothing of caches or generation.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from ld_agent.backbones.local.four_bit_groups import groups, is_plain_llama, save_groups
from ld_agent.backbones.quiet import first_line, quiet_transformers
from ld_agent.errors import ModelError

SHARD = 2**29
"""Most bytes of a file with several weights. Each file is mapped by itself, and unmapped once none of its tensors is in use."""


def convert(gguf: Path, folder: Path) -> None:
    """Write the converted model into an existing folder.

    Raises:
        ModelError: the file cannot be read as GGUF, or the folder cannot be written.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    place: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    # Some progress bars cannot be disabled, hence the redirection.
    with quiet_transformers(), contextlib.redirect_stderr(io.StringIO()):
        with _read_errors(gguf):
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **place)
            config = AutoConfig.from_pretrained(gguf.parent, **place)
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        try:
            _write_tensors(gguf, model, folder)
            model.config.architectures = [type(model).__name__]
            model.config.save_pretrained(folder)
            model.generation_config.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            for file in folder.iterdir():
                with file.open("rb+") as written:
                    os.fsync(written.fileno())
        except (OSError, SafetensorError) as exc:
            size = sum(parameter.nbytes for parameter in model.parameters()) // 2**20
            raise ModelError(
                f"{gguf.name} could not be converted into {folder.parent}, which takes {size} MiB: {first_line(exc)}; "
                f"free space there, or set LD_AGENT_CACHE to another folder"
            ) from exc


def _write_tensors(gguf: Path, model: Any, folder: Path) -> None:
    four_bit: dict[str, Tensor] = {}
    shards: list[list[str]] = []
    shard: dict[str, Tensor] = {}

    def write() -> None:
        save_file(shard, folder / f"model-{len(shards) + 1}.safetensors", {"format": "pt"})
        shards.append(list(shard))
        shard.clear()

    for name, weight, packed in _tensors(gguf, model):
        if packed is not None:
            four_bit[name] = packed
        if shard and weight.nbytes + sum(tensor.nbytes for tensor in shard.values()) > SHARD:
            write()
        shard[name] = weight
    write()
    if len(shards) == 1:
        (folder / "model-1.safetensors").rename(folder / "model.safetensors")
    else:
        files = {name: f"model-{number}.safetensors" for number, names in enumerate(shards, 1) for name in names}
        index = {"metadata": {}, "weight_map": files}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1), "utf-8")
    save_groups(four_bit, folder)


def _tensors(gguf: Path, model: Any) -> Iterator[tuple[str, Tensor, Tensor | None]]:
    """Yield the names that the model gives its weights, the weights in bfloat16, and their 4-bit groups if they have some.

    Takes the steps of transformers' ``load_gguf_checkpoint``, which keeps all tensors.
    """
    from gguf import GGUFReader, dequantize
    from transformers import modeling_gguf_pytorch_utils as theirs

    with _read_errors(gguf):
        reader = GGUFReader(gguf)
        parsed = theirs.load_gguf_checkpoint(str(gguf))
        parsed["tensors"] = {}  # what a processor puts together from several tensors
        architecture = theirs.read_field(reader, "general.architecture")[0]
        processor = theirs.TENSOR_PROCESSORS.get(architecture, theirs.TensorProcessor)(config=parsed["config"])
        names = theirs.get_gguf_hf_weights_map(model, processor)
        packable = _packable(model)
        for tensor in reader.tensors:
            given = {"name": tensor.name, "tensor_key_mapping": names, "parsed_parameters": parsed}
            result = processor.process(weights=dequantize(tensor.data, tensor.tensor_type), **given)
            if result.name not in names:
                continue
            name, weight = names[result.name], _copied(result.weights).to(torch.bfloat16)
            del result  # float32
            blocks = groups(tensor.data, tensor.tensor_type.name) if name in packable else None
            # The rows of the groups come in the same order as those of the weights.
            packed = None if blocks is None else _copied(processor.process(weights=blocks, **given).weights)
            yield name, weight, packed
        for name, weight in parsed["tensors"].items():
            yield name, weight.to(torch.bfloat16).contiguous(), None


def _packable(model: Any) -> set[str]:
    """Names of the weights that the CPU engine uses in 4 bits: of layers, and of an embedding that is not the head too."""
    if not is_plain_llama(model):
        return set()
    modules = {
        f"{name}.weight": module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.startswith("model.layers.") and module.bias is None
    }
    if not model.config.tie_word_embeddings:
        modules["model.embed_tokens.weight"] = model.model.embed_tokens
    return {
        name for name, module in modules.items() if not module.weight.shape[0] % 16 and not module.weight.shape[1] % 64
    }


def _copied(array: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


@contextlib.contextmanager
def _read_errors(gguf: Path) -> Iterator[None]:
    try:
        yield
    except Exception as exc:  # broken bytes can raise anything in the reader
        raise ModelError(
            f"{gguf} cannot be read as GGUF ({type(exc).__name__}: {first_line(exc)}); fetch the file again"
        ) from exc
