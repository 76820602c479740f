"""The workload file: independent tasks in physical units. YAML or JSON; unknown keys are refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from hexloom.formulations.mode import Text
from hexloom.hwmodels.plain_data import extent_fault
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import (
    KERNELS,
    Add,
    Attention,
    Copy,
    Explicit,
    Gemv,
    MatmulId,
    MatmulW4A8,
    MatmulW4A16,
    RmsNorm,
    Softmax,
    SwiGlu,
)
from hexloom.optimizer.kernels.explicit_spec import UserEngine
from hexloom.optimizer.kernels.spec import (
    Bytes,
    Factor,
    GigabytesPerSecond,
    Microseconds,
    Name,
    Spec,
    explain,
)
from hexloom.optimizer.reading import read_data, wrong_kind


def _kernel(data: Any) -> str:
    if isinstance(data, dict):
        return str(data.get("kernel", "explicit"))
    return str(getattr(data, "kernel", "explicit"))


Task = Annotated[
    Annotated[MatmulW4A16, Tag("matmul_w4a16")]
    | Annotated[RmsNorm, Tag("rmsnorm")]
    | Annotated[Copy, Tag("copy")]
    | Annotated[Softmax, Tag("softmax")]
    | Annotated[SwiGlu, Tag("swiglu")]
    | Annotated[Add, Tag("add")]
    | Annotated[Gemv, Tag("gemv")]
    | Annotated[MatmulId, Tag("matmul_id")]
    | Annotated[MatmulW4A8, Tag("matmul_w4a8")]
    | Annotated[Attention, Tag("attention")]
    | Annotated[Explicit, Tag("explicit")],
    Discriminator(
        _kernel,
        custom_error_type="unknown_kernel",
        custom_error_message=f"there is no such kernel; known: {', '.join(KERNELS)}, or ops of your own",
    ),
]


class UserChannel(Spec):
    """A bandwidth beside the machine's ``ddr``, ``l2_read`` and ``l2_write`` that ops share."""

    name: Name
    rate_gb_s: Annotated[GigabytesPerSecond, Field(gt=0, le=10**9)]


class Slows(Spec):
    """While an op of class ``cause`` works, ops of class ``victim`` work at ``factor`` of their speed.

    Several causes multiply; what a slowed op demands of channels falls with its speed.
    """

    victim: Name
    cause: Name
    factor: Factor


class UserPool(Spec):
    """A memory beside the machine's scratchpad, with addresses of its own: a locked part of a cache, another level.

    Of its ``size_bytes`` the highest ``reserved_bytes`` are somebody else's. In one that is ``dma_only``, as DDR above
    the mapped window, only ops on dma can use buffers.
    """

    name: Name
    size_bytes: Annotated[Bytes, Field(ge=1)]
    reserved_bytes: Bytes = 0
    dma_only: bool = Field(default=False, exclude_if=lambda only: not only)

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if self.reserved_bytes > self.size_bytes:
            raise ValueError(
                f"pool {self.name!r}: reserved_bytes {self.reserved_bytes} is above its size_bytes {self.size_bytes}"
            )
        return self


class Reserved(Spec):
    """Bytes of the scratchpad, or of ``pool``, that somebody else holds for a while.

    It is held until the end of op ``until``, from the start of op ``from`` on, or with both between the two. Ops are
    called as in the plan: ``task/op``, or ``op`` where there is one task.
    """

    bytes: Annotated[Bytes, Field(ge=1)]
    until: Name | None = None
    from_: Name | None = Field(default=None, alias="from")
    address: Bytes | None = None
    pool: Name | None = None

    @model_validator(mode="after")
    def _has_an_edge(self) -> Self:
        if self.until is None and self.from_ is None:
            raise ValueError("say 'until' or 'from' which op it is held; what is held throughout is a resident buffer")
        return self


class Workload(Spec):
    """Tasks whose inputs are ready and that do not depend on each other.

    ``hw`` is the machine when none is named beside the file; ``tick_us`` forces the length of a tick. ``channels`` and
    ``interference`` say what else than engines and DDR the ops share. ``hazards``: whether ops that touch the
    same bytes and that nothing orders are refused, ordered as they stand in the file, or only noted. ``pools`` are
    further memories that buffers can name, ``reserved`` what the plan may have only for a part of the time.
    """

    schema_: Literal["hexloom.workload/1"] = Field(default="hexloom.workload/1", alias="schema")
    name: Name
    title: Text = ""
    hw: Name | None = None
    tick_us: Microseconds | None = None
    engines: tuple[UserEngine, ...] = ()
    channels: tuple[UserChannel, ...] = ()
    interference: tuple[Slows, ...] = ()
    hazards: Literal["refuse", "order", "report"] = "refuse"
    pools: tuple[UserPool, ...] = ()
    reserved: tuple[Reserved, ...] = ()
    tasks: tuple[Task, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for kind, names in (
            ("task", [task.name for task in self.tasks]),
            ("engine", [engine.name for engine in self.engines]),
            ("channel", [channel.name for channel in self.channels]),
            ("pool", [pool.name for pool in self.pools]),
        ):
            for name in names:
                if names.count(name) > 1:
                    raise ValueError(f"two {kind}s are named {name!r}; names must differ")
        if self.tick_us == 0:
            raise ValueError("tick_us must be above 0")
        return self

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read a workload file.

        Raises
        ------
        InvalidInputError
            One line with every fault: where, what, and the nearest known key.
        """
        return cls.from_data(read_data(Path(path)), str(path))

    @classmethod
    def from_data(cls, data: Any, source: str = "workload") -> Workload:
        """Validate plain data; ``source`` names it in errors."""
        if not isinstance(data, dict):
            got = "nothing" if data is None else type(data).__name__
            raise InvalidInputError(f"{source}: expected keys and values, got {got}")
        fault = extent_fault(data) or wrong_kind(data, "workload")
        if fault is not None:
            raise InvalidInputError(f"{source}: {fault}")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InvalidInputError(f"{source}: {explain(error)}") from None

    def to_json(self) -> str:
        """Return the canonical JSON of the workload."""
        # What is newer than the format is left out where it says nothing: digests stay what they were.
        return self.model_dump_json(
            by_alias=True, exclude={name for name in ("reserved", "pools") if not getattr(self, name)}
        )

    @classmethod
    def from_json(cls, text: str) -> Workload:
        """Read what `to_json` wrote.

        Raises
        ------
        InvalidInputError
            The text is not JSON or not a workload.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"workload: not JSON at line {error.lineno}: {error.msg}") from None
        return cls.from_data(data)

    def digest(self) -> str:
        """SHA-256 of the canonical JSON, hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()
