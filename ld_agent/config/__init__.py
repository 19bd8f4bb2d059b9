"""The configuration of an agent: its sections together, and `load_config`, which reads YAML and overrides.

A config file says what it builds on (``base: default``) and what differs. The defaults of `ld_agent.config.sections` are the only
ones; docs/configuration.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import field_validator, model_validator

from ld_agent.config.sections import (
    GAMMAS,
    MINILM,
    TALK_GAMMAS,
    AgentSection,
    BackboneSection,
    ChecksSection,
    EncoderSection,
    MemorySection,
    ModulesSection,
    PersonasSection,
    Section,
    ServerSection,
    StoreSection,
    TopicsSection,
)
from ld_agent.config.settings import SettingsFiles, checked


class Config(Section):
    """Everything an `Agent` is made from.

    Attributes:
        language: of the prompts and of the agent's phrases: the code of a folder in ``ld_agent/languages``, the path of your
            own folder, or ``auto``, which chooses for each conversation by the script of what is said first. A language that
            the default encoder does not know replaces it by its own.
    """

    language: str = "en"
    agent: AgentSection = AgentSection()
    backbone: BackboneSection = BackboneSection()
    modules: ModulesSection = ModulesSection()
    memory: MemorySection = MemorySection()
    personas: PersonasSection = PersonasSection()
    checks: ChecksSection = ChecksSection()
    encoder: EncoderSection = EncoderSection()
    topics: TopicsSection = TopicsSection()
    store: StoreSection = StoreSection()
    server: ServerSection = ServerSection()

    @model_validator(mode="after")
    def _encoder_knows_the_language(self) -> Config:
        if self.language != "en" and self.encoder.model == MINILM:
            from ld_agent.languages import encoder_for

            model = encoder_for(self.language) or MINILM
            object.__setattr__(self, "encoder", self.encoder.model_copy(update={"model": model}))
        return self

    @model_validator(mode="after")
    def _gamma_fits_the_encoder(self) -> Config:
        memory, encoder = self.memory, self.encoder.model
        gamma = GAMMAS.get(encoder, GAMMAS[MINILM]) if memory.gamma is None else memory.gamma
        talk = TALK_GAMMAS.get(encoder, gamma) if memory.gamma is None else gamma
        filled = {"gamma": gamma, "gamma_talk": talk if memory.gamma_talk is None else memory.gamma_talk}
        object.__setattr__(self, "memory", memory.model_copy(update=filled))
        return self

    @field_validator("memory")
    @classmethod
    def _views_are_named_once(cls, memory: MemorySection) -> MemorySection:
        if len(set(memory.views)) < len(memory.views):
            raise ValueError(f"views={list(memory.views)} names a view twice; name each once")
        return memory

    def changed(self, **sections: Mapping[str, Any]) -> Config:
        """Return a copy in which keys of sections have other, valid values: ``changed(store={"path": "me.db"})``."""
        updated = {name: getattr(self, name).model_copy(update=dict(keys)) for name, keys in sections.items()}
        return self.model_copy(update=updated)


def load_config(path: str | Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Read a config file and apply ``a.b=c`` overrides.

    Args:
        path: a YAML file, or the name of a shipped config ("default", "bart-base"); None: the shipped default.
        overrides: dotted assignments, later ones win; values are YAML ("memory.views=[events]").

    Raises:
        ConfigError: no such file or base, text that is not YAML, an unknown key or a value out of range.
    """
    return CONFIGS.load("default" if path is None else path, overrides)


def greedy_config(path: str | Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """`load_config` for runs that are to be repeated and compared: replies are decoded greedily, unless an override says
    otherwise."""
    return load_config(path, ["modules.generator.temperature=0", *overrides])


def parse_config(values: Any, source: str = "config") -> Config:
    """Check plain values against the model; what they leave out has the defaults of this file.

    Raises:
        ConfigError: naming the dotted path of the first offending key.
    """
    return checked(Config, values, [], source)


def _implied_base(values: Mapping[str, Any]) -> str | None:
    """The base of a file that names none: ``default``, unless the file names a model, which the adapters do not fit."""
    backbone = values.get("backbone")
    names_model = isinstance(backbone, dict) and not backbone.keys().isdisjoint({"kind", "model"})
    return None if names_model else "default"


CONFIGS = SettingsFiles(Config, "configs/agent", "memory.k=5", _implied_base)
