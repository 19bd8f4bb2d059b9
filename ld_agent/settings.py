"""Files of settings: YAML with ``a.b=c`` overrides, checked against a model, and errors that name the key.

Serves agents' configs and training settings alike; knows the keys of neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ld_agent.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


def read_values(source: Path, overrides: Sequence[str] = (), example: str = "memory.k=5") -> Any:
    """Read a YAML file and apply dotted assignments, later ones winning; their values are YAML.

    Raises:
        ConfigError: text that is not YAML, or an override that is no assignment, like ``example``.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        loaded: Any = OmegaConf.load(source)
        values = OmegaConf.to_container(loaded, resolve=True)
    except (OmegaConfBaseException, YAMLError, UnicodeError, RecursionError, OSError) as exc:
        raise ConfigError(f"{source} cannot be read as YAML: {_first_line(exc)}") from exc
    for override in overrides:
        key, assigned, _ = override.partition("=")
        if not assigned or not key.strip():
            raise ConfigError(f"override {override!r} is not an assignment; write it like {example}")
        if not override.isascii() and any("\ud800" <= character <= "\udfff" for character in override):
            raise ConfigError(f"override {override!r} has half a character (a lone surrogate); remove it")
        try:
            loaded = OmegaConf.unsafe_merge(loaded, OmegaConf.from_dotlist([override]))
            values = OmegaConf.to_container(loaded, resolve=True)
        except (OmegaConfBaseException, YAMLError, UnicodeError, RecursionError) as exc:
            raise ConfigError(
                f"override {override[:200]!r}: {_first_line(exc)}; fix the value of {key[:100]!r}"
            ) from exc
    return values


def checked(model: type[Model], values: Any, source: str, example: str) -> Model:
    """Check plain values against a model.

    Args:
        example: a file that shows the keys.

    Raises:
        ConfigError: naming the dotted path of the first offending key.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{source} holds {type(values).__name__}, not keys and values; see {example}")
    try:
        return model.model_validate(values)
    except ValidationError as exc:
        raise ConfigError(f"{source}: {_explain(model, exc)}") from exc


def _explain(model: type[BaseModel], exc: ValidationError) -> str:
    problem = exc.errors()[0]
    path = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        section: Any = model
        for part in problem["loc"][:-1]:
            section = getattr(section, "model_fields", {}).get(str(part))
            section = getattr(section, "annotation", None)
        known = ", ".join(getattr(section, "model_fields", {}))
        return f"unknown key {path}" + (f"; the keys there are {known}" if known else "")
    if problem["type"] == "missing":
        return f"{path} is not given; add it"
    if not path:
        return problem["msg"].removeprefix("Value error, ")
    return f"{path}={problem['input']!r}: {problem['msg']}"


def _first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
