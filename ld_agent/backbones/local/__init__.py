"""A language model in this process, by transformers. `LocalBackbone` is what others use."""

from ld_agent.backbones.local.backbone import LocalBackbone

__all__ = ["LocalBackbone"]
