"""What goes to a model of CP-SAT and comes back, as data: whoever asks for it need not load the solver."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlatSolution:
    """Values of one solution, by position of the op.

    ``units`` holds, by (op, use), the unit ids that the model had to choose; ``offsets`` the addresses by buffer, None
    when the model only counts bytes.
    """

    start: tuple[int, ...]
    moved: tuple[int, ...]
    known: tuple[int, ...]
    mode: tuple[int, ...]
    units: dict[tuple[int, int], tuple[int, ...]]
    offsets: dict[int, int] | None
    makespan: int


@dataclass(frozen=True, slots=True)
class FlatOptions:
    """What the model holds and how it is searched; with ``first`` any solution is as good as the best.

    Without ``linear`` no linear program is solved beside the search. With ``exclusive`` the sets of ops that exclude
    each other are constraints of their own, with ``strong`` more is derived from what follows each other.
    """

    addresses: bool
    upper: int
    lower: int
    seconds: float
    deterministic: bool
    seed: int
    workers: int
    presolve: bool = True
    first: bool = False
    linear: bool = True
    exclusive: bool = False
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """What stays of a schedule; ops and buffers by their positions in the problem of the window.

    ``free`` ops are solved anew, between ``begin`` and ``reach``. ``later`` ops keep their distance from each other:
    they move by what ``makespan`` changes. All others stay where they are. ``start``, ``moved`` and ``known`` are the
    times of the schedule. Buffers in ``counted`` have no address yet: only their bytes are looked at. In ``sequence``
    every unit and pipe keeps the order of its ops: what is left is how late they are, and where buffers lie.
    """

    begin: int
    reach: int
    makespan: int
    free: frozenset[int]
    later: frozenset[int]
    start: tuple[int, ...]
    moved: tuple[int, ...]
    known: tuple[int, ...]
    offsets: dict[int, int]
    counted: frozenset[int] = frozenset()
    sequence: bool = False
