"""What the outside may know of paths: nothing but the last part."""

from __future__ import annotations

import re

_PATH = re.compile(r"(?<![\w.:/])(?:[A-Za-z]:)?[/\\](?:[^\s/\\:,;()'\"]+[/\\])*([^\s/\\:,;()'\"]*)")


def without_paths(text: str) -> str:
    """A sentence with every absolute path cut down to its last part.

    >>> without_paths("The encoder /srv/models/tiny (hash 12) cannot be loaded: and/or /srv/x y.")
    'The encoder tiny (hash 12) cannot be loaded: and/or x y.'
    """
    return _PATH.sub(lambda match: match[1], text)
