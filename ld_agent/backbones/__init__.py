"""Language models behind one interface (`base.Backbone`), and the dict of backbone kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ld_agent.backbones.base import Backbone, Completion, Message, Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config.sections import BackboneSection
from ld_agent.errors import ConfigError

__all__ = ["BACKBONES", "Backbone", "Completion", "Message", "Request", "ScriptedBackbone", "build_backbone"]

Builder = Callable[[BackboneSection, Mapping[str, str], Mapping[str, str]], Backbone]


def _transformers(section: BackboneSection, adapters: Mapping[str, str], models: Mapping[str, str]) -> Backbone:
    from ld_agent.backbones.local import LocalBackbone

    return LocalBackbone(
        section.model,
        dtype=section.dtype,
        device=section.device,
        sha256=section.sha256,
        trust_remote_code=section.trust_remote_code,
        context_window=section.context_window,
        adapters=adapters,
        thinking=section.thinking,
    )


def _openai(section: BackboneSection, adapters: Mapping[str, str], models: Mapping[str, str]) -> Backbone:
    from ld_agent.backbones.endpoint import EndpointBackbone

    if adapters:
        module = next(iter(adapters))
        raise ConfigError(
            f"modules.{module}.adapter is set, but an endpoint loads its adapters itself; set modules.{module}.adapter=null, "
            f"or serve the adapter there and also name it in modules.{module}.model"
        )
    return EndpointBackbone(
        section.model,
        base_url=section.base_url,
        api_key_env=section.api_key_env,
        timeout=section.timeout,
        context_window=section.context_window,
        models=models,
        extra=section.extra,
    )


def _scripted(section: BackboneSection, adapters: Mapping[str, str], models: Mapping[str, str]) -> Backbone:
    return ScriptedBackbone(dict(section.script or {}), section.context_window or 4096)


BACKBONES: dict[str, Builder] = {"transformers": _transformers, "openai": _openai, "scripted": _scripted}


def build_backbone(
    section: BackboneSection, adapters: Mapping[str, str] | None = None, models: Mapping[str, str] | None = None
) -> Backbone:
    """Load the backbone described by a config section.

    Args:
        adapters: adapter references by the names that requests will use.
        models: served model name by module, for endpoints.

    Raises:
        ConfigError: no such kind.
        ModelError: the model cannot be loaded.
    """
    if section.kind not in BACKBONES:
        raise ConfigError(f"backbone.kind={section.kind!r} is unknown; known kinds: {', '.join(BACKBONES)}")
    return BACKBONES[section.kind](section, adapters or {}, models or {})
