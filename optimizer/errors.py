"""Errors that a user can mend; each message says what, which object, value, limit, and what to change."""

from __future__ import annotations


class HexloomError(Exception):
    """Base of all errors of hexloom."""


class InvalidInputError(HexloomError, ValueError):
    """A file or an argument is wrong; the message is one line per fault."""


class PlanError(HexloomError):
    """A plan cannot be run: its queues and waits block each other, or a decision contradicts itself."""


class CheckFailedError(HexloomError):
    """A result of our own did not pass the checker: a bug in hexloom, never the user's fault."""


class TooManyOpsError(InvalidInputError):
    """A plan of ops one by one would be larger than any may be; as loops it might be small."""


class NoPlanError(InvalidInputError):
    """There is no plan to compare with; ``proven``: there can be none."""

    def __init__(self, message: str, *, proven: bool) -> None:
        super().__init__(message)
        self.proven = proven
