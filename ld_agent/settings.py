"""Settings files: YAML with ``a.b=c`` overrides, validated by a pydantic model, with errors that name the key.

Used for agent configs and training settings; knows the keys of neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ld_agent.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


def read_values(source: Path, overrides: Sequence[str] = (), example: str = "memory.k=5") -> Any:
    """Read a YAML file and apply ``a.b=VALUE`` overrides in order; values are YAML.

    Args:
        example: a valid override, for error messages.

    Raises:
        ConfigError: the file is not YAML, or an override is not an assignment.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        loaded: Any = OmegaConf.load(source)
        values = OmegaConf.to_container(loaded, resolve=True)
    except (OmegaConfBaseException, YAMLError, UnicodeDecodeError, OSError) as exc:
        raise ConfigError(f"{source} cannot be read as YAML: {_first_line(exc)}") from exc
    for override in overrides:
        key, assigned, _ = override.partition("=")
        if not assigned or not key.strip():
            raise ConfigError(f"override {override!r} is not an assignment; expected something like {example}")
        try:
            loaded = OmegaConf.unsafe_merge(loaded, OmegaConf.from_dotlist([override]))
            values = OmegaConf.to_container(loaded, resolve=True)
        except (OmegaConfBaseException, YAMLError) as exc:
            raise ConfigError(f"override {override!r}: {_first_line(exc)}; fix the value of {key}") from exc
    return values


def checked(model: type[Model], values: Any, source: str, example: str) -> Model:
    """Check plain values against a model.

    Args:
        example: a file with all keys, for error messages.

    Raises:
        ConfigError: names the dotted path of the first invalid key.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{source} contains {type(values).__name__}, not keys and values; see {example}")
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
        return f"unknown key {path}" + (f"; the known keys are {known}" if known else "")
    if problem["type"] == "missing":
        return f"{path} is missing; add it"
    if not path:
        return problem["msg"].removeprefix("Value error, ")
    return f"{path}={problem['input']!r}: {problem['msg']}"


def _first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
