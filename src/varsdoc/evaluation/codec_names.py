"""A codec and its options as one word: binary, int8, binary:pool=3, int8:share=0.95."""

from __future__ import annotations

from typing import Any

from varsdoc.errors import ConfigError


def open_codec(spec: str) -> Any:
    """The codec that a word names.

    >>> open_codec("int8:pool=2").pool
    2
    >>> open_codec("int8:depth=2")
    Traceback (most recent call last):
    varsdoc.errors.ConfigError: A codec is written like binary, int8:pool=3 or binary:share=0.95, not 'int8:depth=2'.
    """
    from varsdoc.index.codecs import get_codec

    name, *options = spec.split(":")
    wanted: dict[str, Any] = {}
    for option in options:
        key, _, value = option.partition("=")
        try:
            if key == "pool":
                wanted["pool"] = int(value)
            elif key == "share":
                wanted["share"] = float(value) if value else True
            else:
                raise ValueError(key)
        except ValueError as error:
            raise ConfigError(
                f"A codec is written like binary, int8:pool=3 or binary:share=0.95, not {spec!r}."
            ) from error
    return get_codec(name, **wanted)
