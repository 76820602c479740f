"""A side-car that is cut or lacks something is refused in words."""

import json

import pytest
from unit.emit.randoms import random_schedule

from hexloom.emit.c_tables import CTables
from hexloom.emit.read import read_tables
from hexloom.optimizer.errors import InvalidInputError


def test_a_damaged_side_car_is_refused() -> None:
    emitted = CTables(random_schedule(1), "t")
    tables, side_car = emitted.tables, emitted.side_car()
    binary = tables.to_bytes()
    assert read_tables(binary, side_car).groups == tables.groups
    data = json.loads(side_car)
    short = {key: value for key, value in data.items() if key != "stages"}
    for damaged in (side_car[:100], "", "[]", "null", json.dumps(short), json.dumps({**data, "buffers": [1]})):
        with pytest.raises(InvalidInputError, match="side-car"):
            read_tables(binary, damaged)
