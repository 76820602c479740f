"""Writing C: text that is C99 and C++11 at once, whatever names it is given."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXTERNAL, INTERNAL = 31, 63
"""Characters that tell two identifiers apart, at least, in C99: seen by the linker, and within a file."""

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl complex
    const const_cast constexpr continue decltype default delete do double dynamic_cast else enum errno explicit export
    extern false float for friend goto if imaginary inline int int8_t int16_t int32_t int64_t long main mutable
    namespace new noexcept not not_eq nullptr offsetof operator or or_eq private protected public register
    reinterpret_cast restrict return short signed size_t sizeof static static_assert static_cast struct switch template
    this thread_local throw true try typedef typeid typename typeof uint8_t uint16_t uint32_t uint64_t union unsigned
    using virtual void volatile wchar_t while xor xor_eq NULL
    linux unix i386
    """,
    )
)
"""Words of C and C++, what <stdint.h> and <stddef.h> declare, and names that GNU compilers define as macros."""

_RISKY = re.compile(r"(?<=\*)(?=/)|(?<=/)(?=\*)|(?<=\?)(?=\?)")
"""Between the two characters that end a comment, open one, or begin a trigraph."""


def comment(text: str) -> str:
    """Return ``text`` as a comment of one line; nothing in it ends the comment or opens another."""
    plain = "".join(c if " " <= c <= "~" and c != "\\" else f"<U+{ord(c):04X}>" for c in text)
    return f"/* {_RISKY.sub(' ', plain)} */"


def identifier(text: str, length: int = INTERNAL) -> str:
    """Return a C and C++ identifier that reads like ``text``, at most ``length`` characters long.

    Too long a name keeps its beginning and gets six digits of its hash, so that two long names with the same
    beginning differ.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "x"
    if name[0].isdigit():
        name = f"x{name}"
    if name.lower() in KEYWORDS or name in KEYWORDS or name.lower().startswith("hexloom"):
        name = f"x_{name}"
    if len(name) > length:
        name = f"{name[: length - 7].rstrip('_')}_{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    return name


class Names:
    """Identifiers of one scope: different texts get different names, in any case of letters."""

    def __init__(self, length: int = INTERNAL) -> None:
        self._length = length
        self._taken: set[str] = set()

    def __call__(self, text: str) -> str:
        """Return a new name like ``text``; a number is added when it is taken."""
        name = identifier(text, self._length)
        count = 1
        while name.lower() in self._taken:
            count += 1
            tail = f"_{count}"
            name = identifier(text, self._length - len(tail)) + tail
        self._taken.add(name.lower())
        return name


def unsigned(value: int, bits: int = 32) -> str:
    """Return the literal of an unsigned number: small ones with suffix, 64 bits by macro."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{value} does not fit into {bits} bits")
    return f"UINT64_C({value})" if bits == 64 else f"{value}u"


def braced(values: Iterable[str | Sequence[str]]) -> str:
    """Return an initialiser with every level in braces."""
    parts = (value if isinstance(value, str) else "{" + ", ".join(value) + "}" for value in values)
    return "{" + ", ".join(parts) + "}"


class CText:
    """A file of C that grows line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __call__(self, *lines: str) -> None:
        """Add lines."""
        self._lines += lines

    def define(self, name: str, value: str) -> None:
        """Add a constant."""
        self(f"#define {name} ({value})")

    def open_guard(self, name: str, includes: Sequence[str] = ()) -> None:
        """Begin a header: guard, includes, C linkage."""
        self(f"#ifndef {name}", f"#define {name}", "", *(f'#include "{i}"' for i in includes))
        self("", "#ifdef __cplusplus", 'extern "C" {', "#endif", "")

    def close_guard(self, name: str) -> None:
        """End a header."""
        self("", "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {name} */")

    def table(
        self,
        kind: str,
        name: str,
        rows: Sequence[str],
        empty: str,
        remarks: Sequence[str] = (),
        *,
        is_static: bool = False,
    ) -> None:
        """Add a constant array, one row a line; C has no empty arrays, so one without rows holds ``empty``."""
        self(f"{'static ' if is_static else ''}const {kind} {name}[{max(1, len(rows))}] = {{")
        for k, row in enumerate(rows or [empty]):
            comma = "," if k + 1 < len(rows) else ""
            self(f"  {row}{comma}" + (f" {comment(remarks[k])}" if k < len(remarks) else ""))
        self("};", "")

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"
