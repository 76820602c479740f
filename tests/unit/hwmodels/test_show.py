import pytest

from hexloom.hwmodels import list_hw, load_hw
from hexloom.hwmodels.show import COLUMNS, machine_rows


@pytest.mark.parametrize("name", list_hw())
def test_every_key_has_a_row_of_text(name):
    machine = load_hw(name)
    rows = machine_rows(machine)
    shown = {f"{row['section']}.{row['name']}" for row in rows}
    assert len(shown) == len(rows)
    assert {key for key, _ in machine.quantities()} < shown
    for row in rows:
        assert tuple(row) == COLUMNS
        assert all(isinstance(text, str) for text in row.values())
        assert row["value"]


def test_what_a_row_says():
    rows = {f"{row['section']}.{row['name']}": row for row in machine_rows(load_hw("hexagon-v81"))}
    assert rows["machine.arch"]["value"] == "v81"
    assert rows["vtcm.total_bytes"]["value"] == "8,388,608 (8,192 KiB)"
    assert rows["vtcm.total_bytes"]["unit"] == "B"
    row = rows["dma.row_ns"]
    assert (row["value"], row["unit"], row["range"], row["confidence"]) == (
        "8",
        "ns",
        "7 .. 12",
        "inferred",
    )
    assert "16,384 rows" in row["source"]
    assert rows["rates.hvx_quantize_u8"]["value"] == "-"
    assert rows["behaviour.hmx_handover"]["value"] == "spin"
    assert rows["clocks.hmx_mhz"]["range"] == ""
