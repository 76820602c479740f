"""Which slice encloses which, on every track of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.optimizer.traces.trace import Trace


def parents(trace: Trace) -> list[int]:
    """Return for every event the position of the innermost one on its track that encloses it, -1 for none.

    Of events that begin together the longer one is the parent; of equal ones the first in the file.
    """
    found = [-1] * len(trace)
    stacks: dict[tuple[int, int], list[int]] = {}
    for i in trace.in_time().tolist():
        event = trace[i]
        assert event.start is not None and event.end is not None
        stack = stacks.setdefault((event.batch, trace.lane_of(i)), [])
        while stack and _end(trace, stack[-1]) < max(event.end, event.start + 1):
            stack.pop()
        found[i] = stack[-1] if stack else -1
        stack.append(i)
    return found


def _end(trace: Trace, i: int) -> int:
    end = trace[i].end
    assert end is not None
    return end
