"""What evaluation refuses, in a sentence."""

from __future__ import annotations

from varsdoc.errors import InputError


class JudgementError(InputError):
    """A judged set that cannot be scored honestly: no pages, no judged query, contradicting judgements."""
