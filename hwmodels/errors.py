"""What is said when a machine file, or a request for one of its numbers, is wrong."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class MachineFileError(ValueError):
    """A machine file, or a name that should be in one, is wrong; the message is one line."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """
    Return ``" (did you mean 'x'?)"`` for the nearest known name, or an empty string.

    Parameters
    ----------
    name
        The unknown name; it may be the last part of a dotted name.
    known
        The names that exist.
    """
    names = list(known)
    tails = {full.rpartition(".")[2]: full for full in names}
    if name in tails:
        return f" (did you mean {tails[name]!r}?)"
    if name and (containing := [full for full in names if name in full]):
        return f" (did you mean {containing[0]!r}?)"
    for candidates in (names, list(tails)):
        if near := difflib.get_close_matches(name, candidates, n=1, cutoff=0.6):
            return f" (did you mean {tails.get(near[0], near[0])!r}?)"
    return ""
