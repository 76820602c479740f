from __future__ import annotations

import re

import pytest

from hexloom.emit.ctext import KEYWORDS, CText, Names, braced, comment, identifier, unsigned


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "/* plain */"),
        ("a */ b /* c", "/* a * / b / * c */"),
        ("*/*/", "/* * / * / */"),
        ("what??/", "/* what? ?/ */"),
        ("line\nbreak \\", "/* line<U+000A>break <U+005C> */"),
        ("\u6f22\u202e", "/* <U+6F22><U+202E> */"),
    ],
)
def test_a_comment_is_one_line_that_nothing_ends(text: str, expected: str) -> None:
    found = comment(text)
    assert found == expected
    inner = found[2:-2]
    assert "*/" not in inner and "/*" not in inner and "??" not in inner and inner.isascii()


@pytest.mark.parametrize("text", ["*", "/", "**//**//", "/*/", "*/*", "///***", "?" * 7, "?/*?"])
def test_runs_of_stars_and_slashes_stay_inside(text: str) -> None:
    inner = comment(text)[2:-2]
    assert "*/" not in inner and "/*" not in inner and "??" not in inner


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ffn", "ffn"),
        ("ffn/matmul.3", "ffn_matmul_3"),
        ("3x3", "x3x3"),
        ("", "x"),
        ("\u6f22", "x"),
        ("__reserved__", "reserved"),
        ("int", "x_int"),
        ("Class", "x_Class"),
        ("hexloom_task", "x_hexloom_task"),
        ("uint8_t", "x_uint8_t"),
    ],
)
def test_identifiers_read_like_their_text(text: str, expected: str) -> None:
    assert identifier(text) == expected


def test_long_identifiers_differ_and_keep_to_the_length() -> None:
    one, other = identifier("w" * 80 + "1", 22), identifier("w" * 80 + "2", 22)
    assert one != other
    assert len(one) == len(other) == 22
    assert one.startswith("wwww")


@pytest.mark.parametrize("word", sorted(KEYWORDS))
def test_no_keyword_is_an_identifier(word: str) -> None:
    for text in (word, word.upper(), f" {word}!"):
        assert identifier(text).lower() not in {w.lower() for w in KEYWORDS}


def test_names_of_one_scope_differ_in_any_case() -> None:
    names = Names(12)
    found = [names(text) for text in ("a b", "a.b", "A_B", "a_b_2", "x" * 30, "x" * 30, "x" * 31)]
    assert found[0] == "a_b"
    assert len({name.lower() for name in found}) == len(found)
    assert all(len(name) <= 12 and re.fullmatch(r"[A-Za-z]\w*", name) for name in found)


def test_numbers_carry_their_type() -> None:
    assert [unsigned(7), unsigned(7, 64)] == ["7u", "UINT64_C(7)"]
    for value, bits in ((-1, 8), (256, 8), (1 << 32, 32), (1 << 64, 64)):
        with pytest.raises(ValueError, match="does not fit"):
            unsigned(value, bits)


def test_initialisers_are_fully_braced() -> None:
    assert braced(["1u", ["2u", "3u"]]) == "{1u, {2u, 3u}}"


def test_tables_are_never_empty() -> None:
    out = CText()
    out.table("t", "none", [], "{0u}")
    out.table("t", "two", ["{1u}", "{2u}"], "{0u}", ["one", "*/"])
    assert str(out) == (
        "const t none[1] = {\n  {0u}\n};\n\nconst t two[2] = {\n  {1u}, /* one */\n  {2u} /* * / */\n};\n\n"
    )
