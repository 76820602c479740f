from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "cases"


@pytest.fixture
def case() -> Callable[[str], Any]:
    """Give the input of a case by its id; skips where the case files are missing."""
    if not FOLDER.is_dir():
        pytest.skip("the case files (../shared/cases beside the repository) are not on this machine")

    def read(name: str) -> Any:
        return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["input"]

    return read
