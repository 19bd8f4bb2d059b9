"""The column formats: times as whole microseconds, lists and details as JSON text, vectors as float32.

Knows no table.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(at: datetime) -> int:
    """Return an aware time as whole microseconds since the epoch."""
    return (at - EPOCH) // timedelta(microseconds=1)


def moment(value: int) -> datetime:
    """Return the aware UTC time of microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=value)


def json_text(value: Any) -> str:
    """Return a value as JSON, the same text for equal values."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def vector_bytes(vector: Vector) -> bytes:
    """Return a (dimension,) vector as little-endian float32."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def vector_from(blob: bytes | None) -> Vector | None:
    """Return the (dimension,) vector of `vector_bytes`; None, not yet encoded, stays None."""
    return None if blob is None else np.frombuffer(blob, dtype="<f4")
