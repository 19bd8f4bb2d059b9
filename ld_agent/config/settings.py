"""Settings files: YAML on top of a base file, overridden by ``a.b=c``, validated by a pydantic model.

Every error is one line that names the dotted path of the key and its file or override. Used for the configs of agents
and of training; knows the keys of neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from ld_agent.errors import ConfigError
from ld_agent.files import shipped_path

Model = TypeVar("Model", bound=BaseModel)
Values = Mapping[str, Any]
BASE = "base"
IN_MEMORY = ":memory:"
"""A store that keeps nothing. YAML would parse it as a mapping; as an override it needs no quotes."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one file or override. ``name`` is how errors refer to it."""

    name: str
    values: Any


@dataclass(frozen=True, slots=True)
class SettingsFiles(Generic[Model]):
    """One kind of settings file.

    A file may name the one it builds on: ``base: NAME`` for a shipped one, ``base: PATH.yaml`` for a path relative to
    the file. Sections are merged key by key; lists and single values are replaced.

    Attributes:
        model: validates the merged values.
        folder: the shipped files.
        example: an override, for error messages.
        implied_base: the base of a file that names none; None: it has none.
    """

    model: type[Model]
    folder: str
    example: str
    implied_base: Callable[[Values], str | None] = lambda values: None

    def load(self, path: str | Path, overrides: Sequence[str] = ()) -> Model:
        """Read a file, given by path or shipped name, with its bases, and apply overrides in order.

        Raises:
            ConfigError: no such file or base, text that is not YAML, an unknown key or a value out of range.
        """
        source = self._find(path)
        layers = [*self._files(source), *(_override(text, self.example) for text in overrides)]
        return checked(self.model, _merged(layers, str(source)), layers, str(source))

    def _find(self, path: str | Path) -> Path:
        source = Path(path)
        if source.is_file():
            return source
        if source.suffix not in (".yaml", ".yml") and source.name == str(path):
            named = self._shipped(str(path))
            if named.is_file():
                return named
            raise ConfigError(f"no config file {path}; give a path, or one of the shipped names: {self._names()}")
        raise ConfigError(f"no config file {path}; give the path of a YAML file, or a shipped name such as default")

    def _files(self, source: Path, below: tuple[Path, ...] = ()) -> list[Layer]:
        """The layers of a file, starting with its outermost base. ``below``: the files that build on this one."""
        chain = (*below, source.resolve())
        if chain[-1] in below:
            circle = " → ".join(path.name for path in chain[below.index(chain[-1]) :])
            raise ConfigError(f"{below[-1]}: its base leads back to itself ({circle}); remove one {BASE}")
        values = _read(source)
        base = values.pop(BASE) if BASE in values else self.implied_base(values)
        if base is None:
            return [Layer(str(source), values)]
        return [*self._files(self._base(base, source), chain), Layer(str(source), values)]

    def _base(self, base: Any, source: Path) -> Path:
        if not isinstance(base, str) or not base:
            raise ConfigError(f"{source}: {BASE}={base!r} is not a name or path; write {BASE}: default")
        is_path = base.endswith((".yaml", ".yml")) or "/" in base
        path = source.parent / Path(base).expanduser() if is_path else self._shipped(base)
        if not path.is_file():
            raise ConfigError(
                f"{source}: no file for {BASE}={base!r}; give a path ending in .yaml, or one of the shipped names: "
                f"{self._names()}"
            )
        return path

    def _shipped(self, name: str) -> Path:
        return shipped_path(f"{self.folder}/{name}.yaml")

    def _names(self) -> str:
        return ", ".join(sorted(path.stem for path in shipped_path(self.folder).glob("*.yaml")))


def checked(model: type[Model], values: Any, layers: Sequence[Layer], source: str) -> Model:
    """Check plain values against a model.

    Args:
        layers: the sources of the values; later ones win.
        source: name of the whole, for messages.

    Raises:
        ConfigError: naming the dotted path of the first offending key and the layer that gives it.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{source} holds {type(values).__name__}, not keys and values")
    try:
        return model.model_validate(values)
    except ValidationError as exc:
        where = _giver(layers, exc.errors()[0]["loc"]) or source
        raise ConfigError(f"{where}: {_explain(model, exc)}") from exc


def _read(source: Path) -> dict[Any, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        loaded: Any = OmegaConf.load(source)
        values = OmegaConf.to_container(loaded)
    except (OmegaConfBaseException, YAMLError, UnicodeError, OSError) as exc:
        raise ConfigError(f"{source} cannot be read as YAML: {_first_line(exc)}") from exc
    except RecursionError as exc:
        raise ConfigError(f"{source} cannot be read as YAML: it is nested too deeply") from exc
    if not isinstance(values, dict):
        raise ConfigError(f"{source} holds {type(values).__name__}, not keys and values")
    return values


def _override(text: str, example: str) -> Layer:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    key, assigned, value = text.partition("=")
    if not assigned or not key.strip():
        raise ConfigError(f"override {text!r} is not an assignment; write it like {example}")
    if value.strip() == IN_MEMORY:
        return Layer(f"override {text!r}", OmegaConf.to_container(OmegaConf.from_dotlist([f"{key}='{IN_MEMORY}'"])))
    try:
        text.encode()
        return Layer(f"override {text!r}", OmegaConf.to_container(OmegaConf.from_dotlist([text])))
    except UnicodeError as exc:
        raise ConfigError(f"override {text!r} is not valid Unicode text; write it in UTF-8") from exc
    except (OmegaConfBaseException, YAMLError) as exc:
        raise ConfigError(f"override {text!r}: {_first_line(exc)}; fix the value of {key}") from exc
    except RecursionError as exc:
        raise ConfigError(f"override {key}=…: its value is nested too deeply; fix the value of {key}") from exc


def _merged(layers: Sequence[Layer], source: str) -> Any:
    """The values of all layers as one, with references such as ``${agent.name}`` resolved."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.to_container(OmegaConf.unsafe_merge({}, *(layer.values for layer in layers)), resolve=True)
    except OmegaConfBaseException as exc:
        key = exc.full_key or ""
        where = _giver(layers, key.split(".")) or source
        raise ConfigError(f"{where}: {key}: {_first_line(exc)}; fix its value") from exc
    except RecursionError as exc:
        raise ConfigError(f"{source}: its values are nested too deeply") from exc


def _giver(layers: Sequence[Layer], location: Sequence[int | str]) -> str | None:
    """The last layer that contains the longest part of a key's path; None: no layer contains any of it."""
    depths = [_depth(layer.values, location) for layer in layers]
    most = max(depths, default=0)
    return next(
        (layer.name for layer, depth in zip(layers[::-1], depths[::-1], strict=True) if depth == most > 0), None
    )


def _depth(values: Any, location: Sequence[int | str]) -> int:
    """The number of leading parts of a key's path that exist in these values."""
    for depth, part in enumerate(location):
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return depth
    return len(location)


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
    said = problem["msg"].removeprefix("Value error, ")
    if not path or isinstance(problem["input"], dict):  # a rule about several keys names them itself
        return said
    return f"{path}={problem['input']!r}: {said}"


def _first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
