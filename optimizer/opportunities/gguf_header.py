"""The header of a GGUF file: what the model says of itself, and the names, shapes and types of its tensors.

Weights are not read, and need not be there: the first part of a file is enough. The reader of the package ``gguf`` maps
them, and refuses such a file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"GGUF"
TYPES = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 9: "q8_1", 10: "q2_k", 11: "q3_k",
    12: "q4_k", 13: "q5_k", 14: "q6_k", 15: "q8_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s",
    20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 30: "bf16", 39: "mxfp4",
}  # fmt: skip
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MOST_ITEMS = 10_000_000
KEPT = 64
"""Items of an array that are kept: vocabularies are long, and nobody asks for them here."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: its sizes, the fastest first, and its type."""

    name: str
    dims: tuple[int, ...]
    type: str


@dataclass(frozen=True)
class Header:
    """Metadata by key, and the tensors in the order of the file."""

    metadata: dict[str, Any]
    tensors: tuple[TensorInfo, ...]


def read_header(path: Path) -> Header:
    """Return the header of a file.

    Raises
    ------
    InvalidInputError
        It is no GGUF file, of another version than 2 and 3, or ends inside its header.
    """
    try:
        with path.open("rb") as file:
            return _Reader(file, str(path)).header()
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror or error}") from None


class _Reader:
    def __init__(self, file: Any, source: str) -> None:
        self.file, self.source = file, source

    def header(self) -> Header:
        if self.file.read(4) != MAGIC:
            raise InvalidInputError(f"{self.source}: this is no GGUF file")
        version = self.number("I")
        if version not in (2, 3):
            raise InvalidInputError(f"{self.source}: GGUF of version {version}; known are 2 and 3, little endian")
        tensors, pairs = self.count(), self.count()
        metadata = {}
        for _ in range(pairs):
            key = self.text()
            metadata[key] = self.value(self.number("I"))
        return Header(metadata, tuple(self.tensor() for _ in range(tensors)))

    def tensor(self) -> TensorInfo:
        name = self.text()
        rank = self.number("I")
        if rank > 8:
            raise InvalidInputError(f"{self.source}: tensor {name[:60]!r} has {rank} dimensions; the file is damaged")
        dims = tuple(self.number("Q") for _ in range(rank))
        kind = self.number("I")
        self.number("Q")  # where its weights lie
        return TensorInfo(name, dims, TYPES.get(kind, f"type {kind}"))

    def value(self, kind: int) -> Any:
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            inner, count = self.number("I"), self.count()
            items = []
            for k in range(count):
                item = self.value(inner)
                if k < KEPT:
                    items.append(item)
            return items
        raise InvalidInputError(f"{self.source}: a value of type {kind}, which GGUF does not have; the file is damaged")

    def count(self) -> int:
        found: int = self.number("Q")
        if found > MOST_ITEMS:
            raise InvalidInputError(f"{self.source}: a count of {found}; the file is damaged")
        return found

    def text(self) -> str:
        size = self.count()
        return self.bytes(size).decode("utf-8", "replace")

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form)))[0]

    def bytes(self, size: int) -> bytes:
        found: bytes = self.file.read(size)
        if len(found) < size:
            raise InvalidInputError(f"{self.source}: the file ends inside its header; give more of it")
        return found
