"""Long-term dialogue agents after LD-Agent: event memory, personas and replies, remembered for months.

Importing this package loads neither torch nor spaCy; the public names below load what they need when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ld_agent.agent import Agent as Agent
    from ld_agent.agent import Conversation as Conversation
    from ld_agent.backbones.scripted import ScriptedBackbone as ScriptedBackbone
    from ld_agent.config import Config as Config
    from ld_agent.config import load_config as load_config
    from ld_agent.errors import LDAgentError as LDAgentError
    from ld_agent.integrations.openai_client import remembering as remembering
    from ld_agent.types import Recalled as Recalled
    from ld_agent.types import Record as Record
    from ld_agent.types import Reply as Reply
    from ld_agent.types import Trait as Trait
    from ld_agent.types import Utterance as Utterance

__version__ = "0.1.0"
_HOMES = {
    "Agent": "agent",
    "Conversation": "agent",
    "Config": "config",
    "load_config": "config",
    "LDAgentError": "errors",
    "Recalled": "types",
    "Record": "types",
    "Reply": "types",
    "ScriptedBackbone": "backbones.scripted",
    "Trait": "types",
    "Utterance": "types",
    "remembering": "integrations.openai_client",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
