"""Which models a server with OpenAI's API offers, asked once and briefly. Knows no backbone."""

from __future__ import annotations

import json
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener


def served_models(base_url: str, timeout: float = 0.3) -> list[str] | None:
    """The names of the models at an address up to and including ``/v1``, asked without a key or a proxy.

    Returns:
        None: nothing answers there; []: something does, but lists no models.
    """
    try:
        with build_opener(ProxyHandler({})).open(f"{base_url.rstrip('/')}/models", timeout=timeout) as answer:
            return sorted(str(model["id"]) for model in json.load(answer)["data"])
    except HTTPError:
        return []
    except (OSError, HTTPException):
        return None
    except (ValueError, KeyError, TypeError):
        return []
