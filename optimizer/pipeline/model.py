"""The pipeline file: a loop as it is written down by hand, with its buffers, queues and threads. YAML or JSON.

A value is a name with an index, ``S[i+1]``: it lives in slot (i+1) mod ``slots`` of buffer ``S``, and who reads it must
find that value there, not an older or a newer one of the same slot.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import ONE_LINE, Name, Spec, explain

LARGEST_TRIP_COUNT = 1_000_000_000
MOST_SLOTS = 4096
MOST_COPIES = 64
MOST_TIMES = 1_000_000
RANGE = re.compile(r"\s*(\d{1,10})\s*(?:\.\.\s*(\d{1,10})\s*)?")
VERBS = ("run", "push", "wait", "signal", "barrier")

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=ONE_LINE)]
Condition = Annotated[str, Field(default="", max_length=200, alias="if", pattern=r"^[^\x00-\x1f]*$")]
Times = Annotated[int, Field(ge=1, le=MOST_TIMES, strict=True)]


class Buffer(Spec):
    """Memory of ``slots`` equal slots that is used again and again.

    ``shares`` names a buffer whose slots are these, one for one: a result that is written in place of its source.
    ``ready`` says that every value is there from the beginning, as weights that stay are.
    """

    name: Name
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS, strict=True)] = 1
    shares: Name | None = None
    ready: bool = False


class Queue(Spec):
    """Jobs that run beside the thread that pushes them.

    ``kind`` ``dma``: started at once, end in any order, known to the one thread that started them; ``fifo`` (HMX): one
    after another, in the order of pushes.
    ``entries`` jobs can be pushed and not yet waited for; the entry of a job that was waited for out of turn is free
    once those before it are. A push beyond that is lost, unless ``when_full`` is ``wait``.
    """

    name: Name
    kind: Literal["dma", "fifo"]
    entries: Annotated[int, Field(ge=1, le=MOST_TIMES, strict=True)]
    when_full: Literal["fault", "wait"] = "fault"


class Event(Spec):
    """A counter that signals add to, from ``initial`` on.

    A wait takes its ``times`` off the counter, or, with ``round: i``, lasts until (i + 1) * ``per_round`` signals came.
    """

    name: Name
    initial: Annotated[int, Field(ge=0, le=MOST_TIMES, strict=True)] = 0
    per_round: Times = 1


class Run(Spec):
    """Work of the thread itself, from this action to its next one."""

    run: Text
    reads: tuple[Text, ...] = ()
    writes: tuple[Text, ...] = ()
    if_: Condition


class Push(Spec):
    """Give a job to a queue; when it has ended it signals ``signals``.

    A transfer that is done by several descriptors takes so many entries of its ring.
    """

    push: Name
    job: Text
    descriptors: Times = 1
    reads: tuple[Text, ...] = ()
    writes: tuple[Text, ...] = ()
    signals: tuple[Name, ...] = ()
    if_: Condition


class WaitFor(Spec):
    """Wait for the oldest job of a queue, or for the one named by ``for``, and retire it; or wait for an event.

    ``expect`` says which job the code takes the oldest for; another one is a fault.
    """

    wait: Name
    for_: Text | None = Field(default=None, alias="for")
    expect: Text | None = None
    times: Times = 1
    round: Text | None = None
    if_: Condition


class Signal(Spec):
    """Add ``times`` to an event."""

    signal: Name
    times: Times = 1
    if_: Condition


class Barrier(Spec):
    """Go on together with all threads that have this barrier."""

    barrier: Name
    if_: Condition


def _verb(data: Any) -> str | None:
    if not isinstance(data, dict):
        return type(data).__name__.lower().removesuffix("for")
    return next((verb for verb in VERBS if verb in data), None)


Action = Annotated[
    Annotated[Run, Tag("run")]
    | Annotated[Push, Tag("push")]
    | Annotated[WaitFor, Tag("wait")]
    | Annotated[Signal, Tag("signal")]
    | Annotated[Barrier, Tag("barrier")],
    Discriminator(
        _verb,
        custom_error_type="unknown_action",
        custom_error_message=f"an action has one of the keys {', '.join(VERBS)}",
    ),
]


class Thread(Spec):
    """What one thread does, in its order: once, in every iteration, once.

    With ``for: k`` and ``count`` it stands for that many threads, and ``{k}`` for the number of each.
    """

    name: Name
    for_: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$", max_length=40)] | None = Field(default=None, alias="for")
    count: Annotated[int, Field(ge=1, le=MOST_COPIES, strict=True)] = 1
    prologue: tuple[Action, ...] = ()
    body: tuple[Action, ...] = ()
    epilogue: tuple[Action, ...] = ()

    @model_validator(mode="after")
    def _copies_are_told_apart(self) -> Self:
        if self.count > 1 and (self.for_ is None or f"{{{self.for_}}}" not in self.name):
            raise ValueError(
                f"thread {self.name!r} stands for {self.count}; write `for: k` and a name with {{k}} in it"
            )
        return self

    def copies(self) -> list[Thread]:
        """Return the threads it stands for."""
        if self.for_ is None:
            return [self]
        data = self.model_dump(by_alias=True, exclude_defaults=True)
        return [
            Thread.model_validate(_filled(data | {"for": None, "count": 1}, self.for_, k)) for k in range(self.count)
        ]


def _filled(data: Any, name: str, k: int) -> Any:
    if isinstance(data, str):
        return data.replace(f"{{{name}}}", str(k))
    if isinstance(data, dict):
        return {key: _filled(value, name, k) for key, value in data.items()}
    return [_filled(value, name, k) for value in data] if isinstance(data, list | tuple) else data


class Pipeline(Spec):
    """A loop of ``iterations`` trips, ``7`` or ``1..4096``, done by threads side by side."""

    schema_: Literal["hexloom.pipeline/1"] = Field(default="hexloom.pipeline/1", alias="schema")
    name: Name
    title: str = ""
    iterations: Annotated[int, Field(ge=0, le=LARGEST_TRIP_COUNT, strict=True)] | Text
    buffers: tuple[Buffer, ...] = ()
    queues: tuple[Queue, ...] = ()
    events: tuple[Event, ...] = ()
    threads: tuple[Thread, ...] = Field(min_length=1)

    @field_validator("iterations")
    @classmethod
    def _is_a_range(cls, value: int | str) -> int | str:
        low, high = _ends(value)
        if low > high:
            raise ValueError(f"{value!r} holds no trip count; write the smaller one first")
        if high > LARGEST_TRIP_COUNT:
            raise ValueError(f"{value!r} goes beyond {LARGEST_TRIP_COUNT} trips")
        return value

    @property
    def trip_counts(self) -> tuple[int, int]:
        """The smallest and the largest trip count."""
        return _ends(self.iterations)

    @classmethod
    def from_data(cls, data: Any, source: str = "pipeline") -> Pipeline:
        """Validate plain data; ``source`` names it in errors.

        Raises
        ------
        InvalidInputError
            One line with every fault.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InvalidInputError(f"{source}: {explain(error)}") from None

    def to_json(self) -> str:
        """Return the canonical JSON of the pipeline."""
        return self.model_dump_json(by_alias=True)


def _ends(value: int | str) -> tuple[int, int]:
    match = RANGE.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is no range of trip counts; write 7 or 1..4096")
    return int(match[1]), int(match[2] or match[1])
