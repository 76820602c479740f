from __future__ import annotations

import pytest

from hexloom import InvalidInputError
from hexloom.optimizer.packing_csv import read_table

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n"


def test_rows_become_buffers_and_come_back_with_offsets() -> None:
    table = read_table(EXAMPLE, "x.csv")
    assert [(b.name, b.size_bytes, b.align_bytes, b.address) for b in table.buffers] == [
        ("b1", 4, 1, None),
        ("b2", 4, 1, None),
    ]
    assert table.lifetimes == ((0, 3), (3, 9))
    assert table.with_offsets((8, 0)) == "id,lower,upper,size,offset\nb1,0,3,4,8\nb2,3,9,4,0\n"


def test_columns_in_any_order_under_the_names_minimalloc_knows() -> None:
    """``end`` names the last moment alive: [2, 5) is 2 to 4."""
    text = "\ufeffsize , alignment,begin,end,buffer_id,gaps,hint,offset\r\n 8,4,2,4,x,,,16\r\n\r\n8,,4,4,y,,,\r\n"
    table = read_table(text.removeprefix("\ufeff"), "-")
    assert [(b.name, b.align_bytes, b.address) for b in table.buffers] == [("x", 4, 16), ("y", 1, None)]
    assert table.lifetimes == ((2, 5), (4, 5))
    assert table.with_offsets((16, 0)).splitlines()[2] == "8,,4,4,y,,,0"


def test_names_with_commas_survive() -> None:
    text = 'id,lower,upper,size\n"a,b",0,1,2\n'
    assert read_table(text, "x").with_offsets((0,)) == 'id,lower,upper,size,offset\n"a,b",0,1,2,0\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.csv: no header; write id,lower,upper,size and one row per buffer"),
        ("id,lower,upper\n", "x.csv: there is no column 'size'; write id,lower,upper,size"),
        ("id,lower,upper,size,colour\n", "x.csv: unknown column 'colour'; known are id, lower, upper, size, "),
        ("id,lower,start,upper,size\n", "x.csv: column 'lower' is there twice; keep one"),
        ("id,lower,upper,size\nb,0,1\n", "x.csv: row 2 has 3 values, the header 4"),
        ("id,lower,upper,size\n,0,1,1\n", "x.csv: row 2: the id is empty; give every buffer a name of its own"),
        ("id,lower,upper,size\nb,0,1,1\nb,1,2,1\n", "x.csv: row 3 ('b'): row 2 has the same id; ids must differ"),
        ("id,lower,upper,size\nb,0,1,4.5\n", "x.csv: row 2 ('b'): size '4.5' is not a whole number; write digits "),
        ("id,lower,upper,size\nb,0,1,-4\n", "x.csv: row 2 ('b'): size -4 is not between 0 and 9007199254740991"),
        ("id,lower,upper,size\nb,0,1,1" + "0" * 30 + "\n", "x.csv: row 2 ('b'): size 1000000000000000000000000000000 "),
        ("id,lower,upper,size\nb,5,3,4\n", "x.csv: row 2 ('b'): upper 3 is before lower 5; swap them"),
        ("id,lower,upper,size,alignment\nb,0,1,4,0\n", "x.csv: row 2 ('b'): alignment 0 is not between 1 and "),
        ("id,lower,upper,size,alignment,offset\nb,0,1,4,8,4\n", "x.csv: row 2 ('b'): offset 4 is not a multiple of "),
        ("id,lower,upper,size,gaps\nb,0,9,4,3-5\n", "x.csv: row 2 ('b'): gaps '3-5' are not supported; leave them "),
        ("id,lower,upper,size,hint\nb,0,9,4,3\n", "x.csv: row 2 ('b'): hint '3' is not supported; "),
        ('id,lower,upper,size\n"b,0,9,4\n', "x.csv: not CSV: unexpected end of data"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_table(text, "x.csv")
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
