"""What a folder of the gallery says: what was published, the runs, what is held against it, and whether it is met."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from hexloom import InvalidInputError
from hexloom.optimizer.kernels.spec import Spec

Value = float | str
Outcome = Mapping[str, Value]
"""What a run comes to: numbers and words by name."""


def _share(text: Any) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", str(text))
    if found is None:
        raise ValueError(f"{text!r} is no percentage; write 5%")
    return float(found[1]) / 100


class Run(Spec):
    """One question to the library: a workload, a loop, a pipeline, or a function of a script.

    ``set`` changes values of the file first (``tasks.0.ops.1.duration_us: 3``), ``machine`` numbers of the machine,
    ``tasks`` keeps only those named. ``with`` are the arguments of a script's function ``call``.
    """

    workload: str | None = None
    loop: str | None = None
    pipeline: str | None = None
    script: str | None = None
    call: str = "measure"
    with_: dict[str, Any] = Field(default_factory=dict, alias="with")
    set: dict[str, Any] = Field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    machine: dict[str, str | float] = Field(default_factory=dict)
    contention: str = "fluid"
    time_limit_s: float = 0.3
    slow: bool = False

    @model_validator(mode="after")
    def _one_file(self) -> Self:
        if sum(name is not None for name in (self.workload, self.loop, self.pipeline, self.script)) != 1:
            raise ValueError("a run has one of workload, loop, pipeline and script")
        return self


class Claim(Spec):
    """What was published, and the expression over the runs that is held against it.

    ``published`` is a number (met within ``within``), a comparison (``> 1``, where only the direction of an effect is
    published), a range (``1.15..1.29``), or a word. ``status``: printed by the source (``stated``), arithmetic on what
    it prints (``inferred``), as quoted by the survey behind the project (``survey``), or what the mechanism comes to by
    hand with times that are ours (``by hand``). With ``differs``, which says
    why, the claim must *not* hold.
    """

    says: str
    published: float | str
    unit: str = ""
    status: Literal["stated", "inferred", "survey", "by hand"] = "stated"
    ours: str
    within: Annotated[float, BeforeValidator(_share)] = 0.0
    differs: str = ""


class Scenario(Spec):
    """One published system. ``lacks`` is what its papers do not print and a full comparison would need."""

    system: str
    published_in: str
    source: str
    mechanism: str
    model: str
    why: str
    lacks: str = ""
    runs: dict[str, Run] = Field(min_length=1)
    claims: tuple[Claim, ...] = Field(min_length=1)


# --- judging --------------------------------------------------------------------------------------------

ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., float]] = {"max": max, "min": min, "abs": abs, "ceil": math.ceil}
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ROUNDING = 1e-9


def runs_of(expression: str) -> set[str]:
    """Return the names of the runs that an expression reads."""
    nodes = ast.walk(ast.parse(expression, mode="eval"))
    return {node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}


def value_of(expression: str, outcomes: Mapping[str, Outcome]) -> Value:
    """Return the value of an expression: numbers, ``run.name``, + - * /, max, min, abs and ceil.

    Raises
    ------
    InvalidInputError
        It holds something else, or a run has no such outcome.
    """

    def walk(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Attribute(value=ast.Name(id=run), attr=name) if run in outcomes and name in outcomes[run]:
                return outcomes[run][name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                return ARITHMETIC[type(op)](walk(left), walk(right))
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(walk, arguments))
        raise InvalidInputError(f"{expression!r}: there is no {ast.unparse(node)!r} in {', '.join(outcomes)}")

    value = walk(ast.parse(expression, mode="eval").body)
    return value if isinstance(value, str) else float(value)


def meets(claim: Claim, ours: Value) -> bool:
    """Whether what came out here meets what was published."""
    wanted = claim.published
    if isinstance(wanted, str):
        compared = re.fullmatch(r"(<=|>=|<|>) (-?[\d.]+)", wanted)
        between = re.fullmatch(r"(-?[\d.]+?)\.\.(-?[\d.]+)", wanted)
        if compared is None and between is None:
            return ours == wanted
        if isinstance(ours, str):
            return False
        if between is not None:
            return float(between[1]) * (1 - claim.within) <= ours <= float(between[2]) * (1 + claim.within)
        assert compared is not None
        strict = "=" not in compared[1]
        slack = ROUNDING if strict else -ROUNDING  # what is equal but for rounding is not more, and not less
        edge = float(compared[2])
        return COMPARE[compared[1]](ours, edge + (slack if ">" in compared[1] else -slack) * max(1.0, abs(edge)))
    return not isinstance(ours, str) and abs(ours - wanted) <= (claim.within + ROUNDING) * abs(wanted)
