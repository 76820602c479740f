import copy
import importlib.resources
import json
from fractions import Fraction

import jsonschema
import pydantic
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import hexloom.hwmodels
from hexloom.hwmodels import Machine, MachineFileError, Quantity, list_hw, load_hw
from hexloom.hwmodels.cost import overhead_us

V81 = load_hw("hexagon-v81")
V81_TEXT = (importlib.resources.files("hexloom.hwmodels") / "data" / "hexagon-v81.yaml").read_text(encoding="utf-8")


def quantity(**fields):
    return Quantity(**({"value": 1, "unit": "us", "source": "a test", "confidence": "guess"} | fields))


def test_the_front_of_the_room():
    assert set(hexloom.hwmodels.__all__) == {
        "Machine",
        "MachineFileError",
        "Quantity",
        "format_bytes",
        "list_hw",
        "load_hw",
        "parse_bytes",
    }


# Quantity


def test_a_quantity_is_exact_and_has_ends():
    rate = quantity(value=0.1, range=(0.05, 0.3))
    assert rate.exact == Fraction(1, 10)
    assert (rate.at("low"), rate.at("value"), rate.at("high")) == (
        Fraction(1, 20),
        Fraction(1, 10),
        Fraction(3, 10),
    )
    assert quantity(value=3).at("high") == 3


def test_numbers_that_yaml_reads_as_text():
    assert quantity(value="1e6").value == 1_000_000
    assert quantity(value="8 MiB", unit="B").value == 8388608
    assert quantity(value=5.0) == quantity(value=5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": 3, "range": (4, 5)}, "value 3 us lies outside its range 4 .. 5"),
        ({"value": 3, "range": (5, 4)}, "outside its range"),
        ({"value": -1}, "value -1 is negative"),
        ({"value": True}, "valid integer"),
        ({"value": float("nan")}, "finite"),
        ({"value": "fast"}, "'fast' is not a finite number"),
        ({"value": "8MB", "unit": "B"}, "ambiguous"),
        ({"value": "1e-400"}, "more digits than a float keeps"),
        ({"value": "1.00000000000000000001"}, "more digits than a float keeps: write 1.0"),
        ({"value": "9" * 399 + ".5"}, "too long"),
        ({"value": "9" * 390 + ".5"}, "too large"),
        ({"source": ""}, "at least 1 character"),
        ({"confidence": "sure"}, "'measured'"),
        ({"clock": "gpu"}, "'core_cycles'"),
        ({"extra": 1}, "Extra inputs"),
    ],
)
def test_a_quantity_refuses(fields, message):
    with pytest.raises(pydantic.ValidationError, match=r"\S") as caught:
        quantity(**fields)
    assert message in str(caught.value)


def test_not_a_mapping_is_refused():
    with pytest.raises(pydantic.ValidationError):
        Quantity.model_validate(7)


def test_only_whole_numbers_are_whole():
    assert quantity(value=5).whole == 5
    with pytest.raises(ValueError, match=r"5\.5 us is not a whole number"):
        _ = quantity(value=5.5).whole


# The shipped files


HEXAGONS = tuple(f"hexagon-v{arch}" for arch in (68, 69, 73, 75, 79, 81))


def test_all_shipped_machines_load():
    assert list_hw() == ("ascend-910", "h100-sm", *HEXAGONS)
    for name in list_hw():
        assert load_hw(name).name == name
    for name in HEXAGONS:
        machine = load_hw(name)
        assert name.endswith(str(machine.arch))
        assert machine.hmx_units == 1


@pytest.mark.parametrize("name", list_hw())
def test_every_number_says_where_it_is_from(name):
    for key, number in load_hw(name).quantities():
        assert len(number.source) >= 10, key
        assert ".md" not in number.source, key
        if number.confidence == "measured":
            assert "no published" not in number.source, key


@pytest.mark.parametrize("name", list_hw())
def test_overheads_default_to_the_low_end(name):
    machine = load_hw(name)
    for key in type(machine.overheads).model_fields:
        overhead = getattr(machine.overheads, key)
        assert overhead.range is not None, key
        assert overhead.exact == overhead.at("low"), key
        assert overhead_us(machine, key) == overhead.exact


def test_known_facts():
    assert [load_hw(name).hvx_contexts for name in HEXAGONS] == [4, 4, 4, 4, 6, 8]
    assert [load_hw(name).hw_threads for name in HEXAGONS] == [6, 6, 6, 6, 7, 9]
    assert [load_hw(name).available_vtcm_bytes >> 20 for name in HEXAGONS] == [4, 8, 8, 8, 8, 8]
    assert [load_hw(name).dma.row_field_bits.whole for name in HEXAGONS] == [16, 16, 16, 24, 24, 24]
    assert [load_hw(name).behaviour.hmx_handover for name in HEXAGONS] == ["futex"] * 5 + ["spin"]
    for name in HEXAGONS[-2:]:  # a thread for HMX beside one for each spinning context
        assert load_hw(name).hw_threads >= load_hw(name).hvx_contexts + 1


def test_known_facts_of_other_machines():
    """In their own words: 25 AIC and 50 AIV behind 192 MiB; 989 TFLOPS and 3.9 of exponentials over 132 SMs."""
    ascend, sm = load_hw("ascend-910"), load_hw("h100-sm")
    assert (ascend.hmx_units, ascend.hvx_contexts, ascend.available_vtcm_bytes >> 20) == (25, 50, 192)
    assert (sm.hmx_units, sm.hvx_contexts, sm.available_vtcm_bytes >> 10) == (1, 4, 227)
    cubes = 2 * ascend.hmx_units * ascend.hmx_mhz / ascend.rates.hmx_fp16_cycles_per_mac.exact
    tensor = 2 * 132 * sm.hmx_mhz / sm.rates.hmx_fp16_cycles_per_mac.exact
    exponentials = 132 * sm.hvx_contexts * sm.core_mhz / sm.rates.hvx_softmax.exact
    assert [float(rate) / 1e6 for rate in (cubes, tensor, exponentials)] == pytest.approx([379, 989, 3.9], rel=0.01)


def test_names_in_the_machine_cover_the_whole_file():
    data = yaml.safe_load(V81_TEXT)
    written = [f"{section}.{key}" for section, keys in data.items() if isinstance(keys, dict) for key in keys]
    assert [key for key, _ in V81.quantities()] == [key for key in written if key != "behaviour.hmx_handover"]
    assert set(V81.ranged()) < set(written)
    assert "dma.row_ns" in V81.ranged()
    assert "clocks.hmx_mhz" not in V81.ranged()


# Reading


def machine_file(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_path_loads_as_path_or_text(tmp_path):
    path = machine_file(tmp_path, V81_TEXT)
    assert load_hw(path) == load_hw(str(path)) == V81


def replaced(old, new):
    assert V81_TEXT.count(old) >= 1
    return V81_TEXT.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            replaced("  row_ns:", "  row_nss:"),
            ["unknown key 'dma.row_nss' (did you mean 'row_ns'?)", "'dma.row_ns' is"],
        ),
        (replaced("    unit: MHz\n", ""), ["key 'clocks.core_mhz.unit' is missing"]),
        (
            replaced("    unit: MHz\n", "    unit: GHz\n"),
            ["clocks.core_mhz: unit 'GHz' is wrong here: write MHz"],
        ),
        (replaced("    clock: hmx_cycles\n", ""), ["rates.hmx_fp16_cycles_per_mac: clock 'none' is wrong"]),
        (
            replaced("value: 2114", "vallue: 2114"),
            ["unknown key 'clocks.core_mhz.vallue' (did you mean 'value'?)"],
        ),
        (replaced("value: 2114", "value: fast"), ["clocks.core_mhz: 'fast' is not a finite number"]),
        (
            replaced("value: 2114", "value: [1]"),
            ["clocks.core_mhz.value: input should be a valid integer, got [1]"],
        ),
        (replaced("value: 2114", "value: 0"), ["clocks.core_mhz: value 0 MHz lies outside its range"]),
        (
            replaced("value: 8\n", "value: 7.5\n"),
            ["engines.hvx_contexts: count must be whole numbers, got 7.5"],
        ),
        (replaced("value: 8\n", "value: 16\n"), ["hw_threads 9 is less than engines.hvx_contexts 16"]),
        (
            replaced("value: 0\n    unit: B", "value: 8MiB\n    unit: B"),
            ["leaves nothing of vtcm.total_bytes"],
        ),
        (replaced("value: 128\n", "value: 96\n"), ["vtcm.align_bytes 96 B is not a power of two"]),
        (
            replaced("hexloom.machine/1", "hexloom.machine/9"),
            ["schema is 'hexloom.machine/9': write 'hexloom.machine/1'"],
        ),
        (replaced("schema: hexloom.machine/1\n", ""), ["key 'schema' is missing: write hexloom.machine/1"]),
        (replaced("hmx_handover: spin", "hmx_handover: sleep"), ["'sleep': write 'spin' or 'futex'"]),
        (replaced("arch: 81", "arch: v81"), ["arch: input should be a valid integer, got 'v81'"]),
        (
            replaced("confidence: inferred", "confidence: sure"),
            ["clocks.core_mhz.confidence is 'sure': write 'measured'"],
        ),
        (V81_TEXT + "ddr: 70\n", ["line", "key 'ddr' is written twice"]),
        (replaced("name: hexagon-v81", "name: [hexagon"), ["line", "not valid YAML"]),
        ("", ["mapping that starts with 'schema: hexloom.machine/1'"]),
        ("- 1\n", ["mapping that starts with"]),
    ],
)
def test_a_wrong_file_is_one_line_that_names_all_problems(tmp_path, text, parts):
    with pytest.raises(MachineFileError) as caught:
        load_hw(machine_file(tmp_path, text))
    message = str(caught.value)
    assert "\n" not in message
    assert "mine.yaml" in message
    for part in parts:
        assert part in message


def test_a_bare_number_is_told_what_a_quantity_needs(tmp_path):
    data = yaml.safe_load(V81_TEXT)
    data["ddr"]["total_gb_s"] = 70
    data["rates"]["hvx_copy"] = 0.1
    with pytest.raises(MachineFileError, match=r"ddr.total_gb_s is 70: write a mapping with value") as caught:
        load_hw(machine_file(tmp_path, yaml.safe_dump(data)))
    assert "rates.hvx_copy is 0.1" in str(caught.value)


def test_unknown_machines_name_the_known_ones(tmp_path):
    with pytest.raises(MachineFileError, match=r"'hexagon-v80' \(did you mean 'hexagon-v\d\d'\?\); known: ascend-910,"):
        load_hw("hexagon-v80")
    with pytest.raises(MachineFileError, match=r"did you mean 'hexagon-v81'"):
        load_hw("v81")
    with pytest.raises(MachineFileError, match=r"did you mean 'hexagon-v\d\d'"):
        load_hw("80")
    with pytest.raises(MachineFileError, match=r"unknown machine 'gpu'; known"):
        load_hw("gpu")
    with pytest.raises(MachineFileError, match=r"none.yaml' cannot be read: No such file"):
        load_hw(tmp_path / "none.yaml")
    with pytest.raises(MachineFileError, match="cannot be read"):
        load_hw(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"title: \xe9\n")
    with pytest.raises(MachineFileError, match="not UTF-8"):
        load_hw(tmp_path / "latin.yaml")


# Identity and change


def test_machines_are_frozen_hashable_and_digestable(tmp_path):
    again = load_hw(machine_file(tmp_path, V81_TEXT))
    assert hash(again) == hash(V81)
    assert again.digest() == V81.digest()
    assert len(V81.digest()) == 64
    assert len({load_hw(name).digest() for name in list_hw()}) == len(list_hw())
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        V81.name = "x"


@pytest.mark.parametrize("name", list_hw())
def test_json_round_trip(name):
    machine = load_hw(name)
    assert Machine.from_json(machine.to_json()) == machine
    assert json.loads(machine.to_json())["schema"] == "hexloom.machine/1"


def test_bad_json_is_one_line():
    with pytest.raises(MachineFileError, match="machine JSON, line 1"):
        Machine.from_json("{")
    with pytest.raises(MachineFileError, match="key 'name' is missing"):
        Machine.from_json('{"schema": "hexloom.machine/1"}')


def test_the_json_schema_accepts_the_shipped_files():
    schema = Machine.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for name in list_hw():
        jsonschema.validate(json.loads(load_hw(name).to_json()), schema)
    wrong = json.loads(V81.to_json())
    del wrong["dma"]["row_ns"]["source"]
    with pytest.raises(jsonschema.ValidationError, match="source"):
        jsonschema.validate(wrong, schema)


def test_with_values_takes_ends_numbers_and_words():
    changed = V81.with_values(
        {
            "overheads.fork_join": "high",
            "rates.hmx_fp16_cycles_per_mac": 1.8e-4,
            "dma.row_ns": "7.5",
            "engines.hvx_contexts": 6,
            "ddr.total_gb_s": "value",
            "behaviour.hmx_handover": "futex",
        }
    )
    assert changed.overheads.fork_join.value == 2.5
    assert changed.overheads.fork_join.range == (0, 2.5)
    assert changed.rates.hmx_fp16_cycles_per_mac.exact == Fraction(18, 100_000)
    assert changed.dma.row_ns.exact == Fraction(15, 2)
    assert changed.hvx_contexts == 6
    assert changed.ddr == V81.ddr
    assert changed.behaviour.hmx_handover == "futex"
    assert changed.l2 == V81.l2
    assert V81.overheads.fork_join.value == 0
    assert changed.digest() != V81.digest()


def test_a_number_outside_the_range_widens_it_and_is_marked():
    row = V81.with_values({"dma.row_ns": 20}).dma.row_ns
    assert row.range == (7, 20)
    assert row.confidence == "guess"
    assert row.source.startswith("set by the caller in place of 8 ns (")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"overhead.fork_join": 1}, "no quantity 'overhead.fork_join' (did you mean 'overheads.fork_join'?)"),
        ({"fork_join": 1}, "did you mean 'overheads.fork_join'?"),
        ({"dma.row_nanoseconds": 1}, "no quantity 'dma.row_nanoseconds'"),
        ({"name": "x"}, "no quantity 'name'"),
        ({"clocks.hmx_mhz": "low"}, "clocks.hmx_mhz has no range to take the low end of: give a number"),
        ({"dma.row_ns": "middle"}, "'middle' is none of 'low', 'high', 'value' or a number"),
        ({"dma.row_ns": -1}, "is negative"),
        ({"engines.hvx_contexts": 2.5}, "whole numbers"),
        ({"engines.hvx_contexts": 10}, "hw_threads 9 is less"),
        ({"rates.hvx_quantize_u8": 1}, "no value for 'rates.hvx_quantize_u8'"),
        ({"behaviour.hmx_handover": "sleep"}, "write 'spin' or 'futex'"),
    ],
)
def test_with_values_refuses_in_one_line(values, message):
    with pytest.raises(MachineFileError) as caught:
        V81.with_values(values)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("name", list_hw())
def test_every_corner_is_a_machine(name, end):
    machine = load_hw(name)
    for key in machine.ranged():
        changed = machine.with_values({key: end})
        assert dict(changed.quantities())[key].exact == dict(machine.quantities())[key].at(end)
    machine.with_values(dict.fromkeys(machine.ranged(), end))


@settings(deadline=None)
@given(st.sampled_from(V81.ranged()), st.floats(0.001, 1e6))
def test_a_set_number_is_kept_exactly_or_refused(key, number):
    try:
        changed = dict(V81.with_values({key: number}).quantities())[key]
    except MachineFileError:
        assert key.startswith(("engines.", "vtcm."))
        return
    assert changed.exact == Fraction(repr(number))
    assert changed.range[0] <= changed.value <= changed.range[1]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
places = [
    (section, key, field)
    for section, keys in json.loads(V81.to_json()).items()
    if isinstance(keys, dict)
    for key, fields in keys.items()
    if isinstance(fields, dict)
    for field in ("", *fields)
]


@settings(deadline=None)
@given(st.sampled_from(places), json_values)
def test_damage_anywhere_is_accepted_or_one_line(place, damage):
    data = copy.deepcopy(V81.model_dump(mode="json", by_alias=True))
    section, key, field = place
    if field:
        data[section][key][field] = damage
    else:
        data[section][key] = damage
    try:
        Machine.from_json(json.dumps(data)).digest()
    except MachineFileError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
