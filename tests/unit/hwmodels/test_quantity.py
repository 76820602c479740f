from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexloom.hwmodels import format_bytes, parse_bytes
from hexloom.hwmodels.quantity import exact, parse_rate


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (0, 0),
        (196608, 196608),
        ("196608", 196608),
        ("0x30000", 196608),
        ("0X30000", 196608),
        ("192KiB", 196608),
        ("8 MiB", 8388608),
        ("1GiB", 1 << 30),
        ("384B", 384),
        (" 384 B ", 384),
        ("007", 7),
    ],
)
def test_sizes(written, size):
    assert parse_bytes(written) == size


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("192K", "192KiB (196608 B)"),
        ("3MB", "3MiB (3145728 B)"),
        ("3 kB", "3KiB (3072 B)"),
        ("1G", "1GiB (1073741824 B)"),
        ("1572864b", "1572864B"),
        ("8 TiB", "write B, KiB, MiB or GiB"),
        ("1.5MiB", "whole bytes"),
        ("", "whole bytes"),
        ("KiB", "whole bytes"),
        ("-1", "negative"),
        (-1, "negative"),
        (True, "whole bytes"),
        (1.0, "whole bytes"),
        (None, "whole bytes"),
    ],
)
def test_a_refused_size_is_named_with_what_to_write(written, advice):
    with pytest.raises(ValueError, match=r"write|negative") as caught:
        parse_bytes(written)
    message = str(caught.value)
    assert str(written) in message
    assert advice in message
    assert "\n" not in message


def test_hexadecimal_digits_come_before_units():
    assert parse_bytes("0x3B") == 59
    assert parse_bytes("0x3KiB") == 3072


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1,024 B (1 KiB)"),
        (1536, "1,536 B (1.5 KiB)"),
        (384000, "384,000 B (375 KiB)"),
        (8388608, "8,388,608 B (8,192 KiB)"),
    ],
)
def test_format(size, text):
    assert format_bytes(size) == text


@given(st.integers(0, 1 << 50), st.sampled_from([("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)]))
def test_every_binary_unit_scales(number, unit):
    assert parse_bytes(f"{number}{unit[0]}") == number * unit[1]
    assert parse_bytes(f"{hex(number * unit[1])}") == number * unit[1]


@given(st.one_of(st.text(max_size=12), st.from_regex(r"[0-9]{1,4} ?[A-Za-z]{0,3}", fullmatch=True)))
def test_any_text_is_a_size_or_one_line(text):
    try:
        assert parse_bytes(text) >= 0
    except ValueError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017


def test_exact_keeps_the_decimal_that_was_written():
    assert exact(0.1) == Fraction(1, 10)
    assert exact("39.5625") == Fraction(633, 16)
    assert exact("1e6") == 1_000_000
    assert exact(1.63e-4) == Fraction(163, 1_000_000)
    assert exact(-3) == -3
    assert exact(Fraction(1, 3)) == Fraction(1, 3)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "nan", "inf", "", "1/0", "x", True, None])
def test_exact_refuses_what_is_no_number(value):
    with pytest.raises(ValueError, match="not a"):
        exact(value)


@pytest.mark.parametrize("value", ["1e999999999", "1e-0009999", "1" * 5000])
def test_exact_refuses_numbers_too_long_to_compute_with(value):
    with pytest.raises(ValueError, match="too long") as caught:
        exact(value)
    assert len(str(caught.value)) < 120


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_exact_goes_back_to_the_same_float(value):
    assert float(exact(value)) == value


@pytest.mark.parametrize(
    ("written", "mb_s"),
    [("20GB/s", 20_000), (" 27.5 GB/s ", 27_500), ("800MB/s", 800), ("0.1GB/s", 100), ("1e-3GB/s", 1), ("0GB/s", 0)],
)
def test_rates(written, mb_s):
    assert parse_rate(written) == mb_s


@pytest.mark.parametrize(
    "written", [20, 1.5, "20", "GB/s", "20GB", "20Gb/s", "-1GB/s", "1.2.3GB/s", True, None, "9" * 500]
)
def test_rates_that_are_none(written):
    with pytest.raises(ValueError, match=r"write|negative"):
        parse_rate(written)
