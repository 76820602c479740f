"""Text to plain data: YAML that means what it looks like, and data small and flat enough to be read at all."""

from __future__ import annotations

import re
from typing import Any

import yaml

MAX_DEPTH = 100
"""Lists and mappings inside each other; readers and writers of JSON give up a little above."""

MAX_REPEATED = 1_000_000
"""Values that YAML anchors may repeat: a few short lines can stand for more than fits into memory."""

MERGE = "tag:yaml.org,2002:merge"


class PlainLoader(yaml.SafeLoader):
    """A safe loader without the traps of YAML 1.1.

    A key that is written twice is refused; plain YAML would keep the last one silently. Dates stay text, and so do
    ``010`` (8 in YAML 1.1) and ``1:30`` (90).
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of ``node``; each key once, and no merge key."""
        seen: set[tuple[type, Any]] = set()
        for key_node, _ in node.value:
            if key_node.tag == MERGE:
                raise yaml.MarkedYAMLError(
                    problem="merge keys (<<) are not read; write the keys out", problem_mark=key_node.start_mark
                )
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int):
                continue
            if (type(key), key) in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} is written twice", problem_mark=key_node.start_mark)
            seen.add((type(key), key))
        return super().construct_mapping(node, deep)


def _without_traps() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    whole = ("tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)"))
    decimal = (
        "tag:yaml.org,2002:float",
        re.compile(
            r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
        ),
    )
    mine = {tag: (tag, re.compile(rf"(?:{pattern.pattern})\Z")) for tag, pattern in (whole, decimal)}
    return {
        first: [mine.get(tag, (tag, pattern)) for tag, pattern in of if tag != "tag:yaml.org,2002:timestamp"]
        for first, of in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


PlainLoader.yaml_implicit_resolvers = _without_traps()


class _TooDeep(Exception):
    """Nested deeper than `MAX_DEPTH`, or in itself."""


def extent_fault(data: Any) -> str | None:
    """Return what is wrong with the extent of ``data``, where it is nested too deeply or repeats too much.

    Data from YAML may hold the same list in many places, and that list others; all that look at every value would
    never end.
    """
    known: dict[int, tuple[int, int]] = {}

    def extent(node: Any, depth: int) -> tuple[int, int]:
        if not isinstance(node, dict | list | tuple):
            return 1, 0
        if id(node) in known:
            if depth + known[id(node)][1] > MAX_DEPTH:
                raise _TooDeep
            return known[id(node)]
        if depth >= MAX_DEPTH:
            raise _TooDeep
        inside = [extent(child, depth + 1) for child in (node.values() if isinstance(node, dict) else node)]
        known[id(node)] = 1 + sum(size for size, _ in inside), 1 + max((height for _, height in inside), default=0)
        distinct[0] += 1 + sum(1 for child in inside if child[1] == 0)
        return known[id(node)]

    distinct = [0]
    try:
        size, _ = extent(data, 0)
    except _TooDeep:
        return f"lists and mappings are nested more than {MAX_DEPTH} levels deep; write fewer loops inside each other"
    repeated = size - distinct[0]
    if repeated > MAX_REPEATED:
        return f"anchors repeat more than {MAX_REPEATED:,} values; use a loop with a count instead"
    return None


def unreadable(error: RecursionError | ValueError) -> str:
    """Return why text could not be made into data, for people."""
    if isinstance(error, RecursionError):
        return f"lists and mappings are nested more than {MAX_DEPTH} levels deep"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if "integer string conversion" in str(error):
        return "it holds a number of thousands of digits"
    return str(error)
