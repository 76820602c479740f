"""What happens to files: cut, doubled, shuffled, with numbers that are none and text of another kind."""

from __future__ import annotations

import gzip
import random

NUMBERS = (
    "-1", "0", "1e999", "NaN", "-0.0", "99999999999999999999999999", "4294967296", "1.5", "null", '"7"', "[]", "{}",
    "1" * 5000, "Infinity", "true", "9223372036854775807", "-9223372036854775808",
)  # fmt: skip
PIECES = (
    "\0", "\ufeff", "\n", "\r", '"', "{", "}", "[", "]", ",", "|", ":", "[" * 3000, "{\"a\":" * 3000, "\\u", "\udc80",
    "start", "stop", "OPBATCH", "----", "\x1b[31m", " : ", "é", "\U0001f600",
)  # fmt: skip


def damaged(text: str, seed: int, steps: int) -> bytes:
    """Return ``text`` after a few changes of the kinds that happen to files, and some that do not."""
    rng = random.Random(seed)
    for _ in range(steps):
        at, to = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        near = min(to, at + rng.randrange(1, 40))
        choice = rng.randrange(9)
        if choice == 0:
            text = text[:at]
        elif choice == 1:
            text = text[:at] + text[near:]
        elif choice == 2:
            text = text[:near] + text[at:]
        elif choice == 3:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif choice in (4, 5):
            digits = [i for i, c in enumerate(text) if c.isdigit()]
            if digits:
                i = rng.choice(digits)
                j = i
                while j < len(text) and text[j].isdigit():
                    j += 1
                text = text[:i] + rng.choice(NUMBERS) + text[j:]
        elif choice == 6:
            lines = text.split("\n")
            rng.shuffle(lines)
            text = "\n".join(lines)
        elif choice == 7:
            text += text[at:to]
        else:
            text = text[:at] + text[at : at + 8].swapcase() + text[at + 8 :]
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data = gzip.compress(data)[: rng.randrange(1, len(data) + 30)]
    if rng.random() < 0.1 and data:
        i = rng.randrange(len(data))
        data = data[:i] + bytes([rng.randrange(256)]) + data[i + 1 :]
    return data
