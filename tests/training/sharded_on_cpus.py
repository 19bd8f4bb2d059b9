"""Starts ``training.train`` with PyTorch's FSDP on CPUs, for a test: as ``accelerate launch`` with configs/accelerate/fsdp.yaml
does on GPUs. accelerate itself makes nothing of FSDP on CPUs, so its state is told here; all else is its own code.
"""

import os
import runpy
import sys
from typing import Any

import torch
import yaml
from accelerate import Accelerator
from accelerate.state import AcceleratorState, DistributedType, PartialState
from accelerate.utils import FullyShardedDataParallelPlugin
from torch.distributed.tensor import DTensor

from ld_agent.files import shipped_path


def shard() -> None:
    """Give accelerate the settings of the shipped config, and let them count on CPUs."""
    settings = yaml.safe_load(shipped_path("configs/accelerate/fsdp.yaml").read_text(encoding="utf-8"))["fsdp_config"]
    os.environ |= {name.upper(): str(value) for name, value in settings.items()} | {"ACCELERATE_USE_FSDP": "true"}
    made = AcceleratorState.__init__

    def sharded(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.fsdp_plugin = kwargs.get("fsdp_plugin") or FullyShardedDataParallelPlugin()
            self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = sharded  # type: ignore[method-assign]
    prepare = Accelerator._prepare_fsdp2

    def prepared(self: Any, *args: Any) -> Any:
        result = prepare(self, *args)
        for model in (one for one in result if isinstance(one, torch.nn.Module)):
            shares = [weight for weight in model.parameters() if isinstance(weight, DTensor)]
            held, whole = sum(share.to_local().numel() for share in shares), sum(share.numel() for share in shares)
            sys.stdout.write(f"holds {held} of {whole}, {len(shares)} of {len(list(model.parameters()))} weights\n")
        return result

    Accelerator._prepare_fsdp2 = prepared  # type: ignore[method-assign]


if __name__ == "__main__":
    shard()
    runpy.run_module("training.train", run_name="__main__")
