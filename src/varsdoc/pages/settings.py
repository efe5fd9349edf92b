"""How pages are wanted: fixed for one `read()`, and sent to each worker once, when it starts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from varsdoc.pages.stream import LONG_SIDE, QUALITY, Limits


@dataclass(frozen=True)
class Settings:
    limits: Limits
    long_side: int = LONG_SIDE
    quality: int = QUALITY
    text: bool = True

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Settings:
        return cls(**{**values, "limits": Limits(**values["limits"])})


@dataclass(frozen=True)
class Picture:
    """One rendered page inside a worker."""

    jpeg: bytes
    width: int
    height: int
    text: str | None = None
