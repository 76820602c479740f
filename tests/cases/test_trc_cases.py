"""Cases about input: what a file may say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import (
    run_cli,
)
from cases.neutral import to_problem

from hexloom import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared


def test_trc_15_unknown_keys_are_errors(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        to_problem(case("TRC-15"))
    assert "unknown key 'buf' (did you mean 'bufs'?)" in str(raised.value)
    assert "unknown key 'byte' (did you mean 'bytes'?)" in str(raised.value)
    path = tmp_path / "work.yaml"
    path.write_text(
        "name: misspelled\nhw: hexagon-v79\ntasks:\n- name: t\n"
        "  ops: [{name: k, engine: hvx, duration_us: 1, buffer: [b]}]\n"
        "  buffers: [{name: b, size_byte: 16777216}]\n",
        encoding="utf-8",
    )
    code, out, said = run_cli(capsys, "solve", path)
    assert (code, out) == (2, "")
    assert "unknown key 'buffer' (did you mean 'buffers'?)" in said
    assert "unknown key 'size_byte' (did you mean 'size_bytes'?)" in said
    assert said.count("\n") == 1
