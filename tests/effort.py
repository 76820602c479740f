"""How many examples a property gets: one number per profile, and parts or multiples of it."""

from __future__ import annotations

from hypothesis import settings

USUAL = 20
"""Examples of a property in the usual profiles; ``HYPOTHESIS_PROFILE=deep`` has many times as many."""


def examples(usual: int) -> int:
    """Return the number for a property that usually gets ``usual``, in the profile of this run."""
    return max(1, usual * settings().max_examples // USUAL)
