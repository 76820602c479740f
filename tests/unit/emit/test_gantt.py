from __future__ import annotations

import itertools
import re
from fractions import Fraction
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from unit.emit import examples

from hexloom.emit.gantt import gantt_svg
from hexloom.emit.palette import TASK_COLOURS, Palette
from hexloom.emit.svg import Bar, clean, coalesce, fit, nice_step, number, text_width
from hexloom.formulations.problem import Mode, Op, Problem

if TYPE_CHECKING:
    from hexloom.optimizer.schedule import Schedule

SVG = "{http://www.w3.org/2000/svg}"


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def tips(root: ElementTree.Element) -> list[str]:
    return [title.text or "" for rect in root.iter(f"{SVG}rect") for title in rect.iter(f"{SVG}title")]


@pytest.fixture(params=["small", "large", "hostile"])
def schedule(request: pytest.FixtureRequest) -> Schedule:
    found: Schedule = request.getfixturevalue(request.param)
    return found


def test_the_picture_is_one_closed_file_on_white(schedule: Schedule) -> None:
    text = gantt_svg(schedule)
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.get("width") == "1400"
    assert root.findall(f"{SVG}rect")[0].get("fill") == "#fff"
    for word in ("<script", "href", "<image", "<foreignObject", "url(http"):
        assert word not in text


def test_shapes_stay_on_the_page(schedule: Schedule) -> None:
    root = ElementTree.fromstring(gantt_svg(schedule))
    height = float(root.get("height", "0"))
    rects = [r for r in root.findall(f"{SVG}rect") if r.get("x") is not None]
    for rect in rects:
        x, y, w, h = (float(rect.get(k, "0")) for k in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert w > 0
        assert h > 0
        assert x + w <= 1400
        assert y + h <= height


def test_texts_of_one_line_do_not_overlap(schedule: Schedule) -> None:
    root = ElementTree.fromstring(gantt_svg(schedule))
    rows: dict[str, list[tuple[float, float, str]]] = {}
    for element in root.iter(f"{SVG}text"):
        text, x = element.text or "", float(element.get("x", "0"))
        wide = text_width(text, float(element.get("font-size", "0"))) * 0.9
        left = {"middle": x - wide / 2, "end": x - wide}.get(element.get("text-anchor", "start"), x)
        assert left >= 0
        assert left + wide <= 1400, text
        rows.setdefault(element.get("y", ""), []).append((left, left + wide, text))
    for row in rows.values():
        row.sort()
        for (_, end, a), (start, _, b) in itertools.pairwise(row):
            assert end <= start, (a, b)


def test_the_title_has_the_numbers(small: Schedule) -> None:
    found = texts(ElementTree.fromstring(gantt_svg(small)))
    assert found[0] == "small"
    makespan, bound = (number(small.us(t), 7) for t in (small.makespan, small.lower_bound))
    factor = number(Fraction(190_000, small.makespan), 3)
    for part in ("v79", f"makespan {makespan} µs", f"lower bound {bound} µs", f"speedup {factor}\u00d7", "190 µs"):
        assert part in found[1]
    assert {"gemm", "rmsnorm", "load", "dequant", "matmul", "store", "norm", "hmx", "hvx", "dma"} <= set(found)
    assert {"overhead before work", "waits for a transfer", "capacity", "8 MiB"} <= set(found)


def test_without_a_baseline_the_title_names_none(small: Schedule) -> None:
    plain = small.model_copy(update={"baselines": {}, "machine": None})
    title = texts(ElementTree.fromstring(gantt_svg(plain)))[1]
    assert "existing" not in title
    assert title.startswith("makespan")


def test_every_slice_of_hmx_is_drawn_at_its_time(small: Schedule) -> None:
    root = ElementTree.fromstring(gantt_svg(small))
    rows = {row.op: row for row in small.rows}
    found = 0
    for rect in root.findall(f"{SVG}rect"):
        tip = rect.findtext(f"{SVG}title") or ""
        if tip.startswith("gemm.matmul["):
            row = rows[tip.partition(":")[0]]
            left, width = 132 + 1164 * row.start / small.makespan, 1164 * (row.end - row.start) / small.makespan
            assert float(rect.get("x", "0")) == pytest.approx(left, abs=0.01)
            assert float(rect.get("width", "0")) == pytest.approx(width, abs=0.01)
            assert "overhead 0.4 µs" in tip
            found += 1
    assert found == 6


def test_unused_pipes_are_not_drawn() -> None:
    ops = (examples.compute("a", "t", "s", 0, "hmx", 10),)
    problem = Problem(engines=(examples.HMX, examples.HVX, examples.PIPE), ops=ops)
    found = texts(ElementTree.fromstring(gantt_svg(examples.schedule_of(problem))))
    assert "hvx" in found
    assert "dma" not in found
    assert not any("Scratchpad" in text for text in found)
    assert "makespan = lower bound 10 ticks" in found


def test_a_schedule_of_no_length_is_drawn() -> None:
    problem = Problem(ops=(Op(name="marker", modes=(Mode(latency_ticks=0),)),))
    ElementTree.fromstring(gantt_svg(examples.schedule_of(problem)))


def test_hostile_names_are_shown_and_kept_short(hostile: Schedule) -> None:
    root = ElementTree.fromstring(gantt_svg(hostile))
    assert texts(root)[0].startswith("a \"q\" <b> & 'c' ]]> new line 漢字 🐍 ww")
    assert any(tip.startswith("work a \"q\" <b> & 'c'") for tip in tips(root))
    assert all("\n" not in text and len(text) < 400 for text in [*texts(root), *tips(root)])


def test_thousands_of_ops_stay_a_small_file(large: Schedule) -> None:
    assert len(large.rows) > 2200
    assert len(gantt_svg(large).encode()) < 1_500_000


def test_more_ops_than_pixels_stay_a_small_file() -> None:
    text = gantt_svg(examples.back_to_back(12_000))
    assert len(text) < 600_000
    assert text.count("<rect") < 4_000


def test_the_same_schedule_gives_the_same_bytes(small: Schedule) -> None:
    assert gantt_svg(small) == gantt_svg(type(small).from_json(small.to_json()))


def test_coalescing_keeps_what_can_be_counted_apart() -> None:
    wide = [Bar(0, 10, "a", (0,)), Bar(10, 20, "a", (1,)), Bar(20, 21, "a", (2,)), Bar(22, 23, "a", (3,))]
    assert [(b.x0, b.x1, b.members) for b in coalesce(wide)] == [(0, 10, (0,)), (10, 21, (1, 2)), (22, 23, (3,))]


def test_coalescing_pools_slivers_in_the_main_colour() -> None:
    slivers = [Bar(k / 100, (k + 0.9) / 100, "ab"[k % 3 == 0], (k,)) for k in range(1000)]
    found = coalesce(slivers)
    assert 10 < len(found) <= 34
    assert {bar.key for bar in found} == {"a"}
    assert all(a.x1 <= b.x0 + 0.31 for a, b in itertools.pairwise(found))


def test_stages_of_a_task_differ_and_tasks_start_from_the_palette(small: Schedule) -> None:
    palette = Palette(small.problem)
    assert len(set(palette.colours.values())) == 7
    single = Problem(ops=(Op(name="x", modes=(Mode(latency_ticks=0),)),))
    assert list(Palette(single).colours.values()) == ["#{:02x}{:02x}{:02x}".format(*TASK_COLOURS[0])]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0, 4, "0"), (Fraction(1, 3), 3, "0.333"), (1234567, 4, "1,234,567"), (2.50, 4, "2.5")],
)
def test_numbers_are_short(value: float, digits: int, text: str) -> None:
    assert number(value, digits) == text


@pytest.mark.parametrize("span", [Fraction(1, 7), Fraction(1), Fraction(166560, 1000), Fraction(3 * 10**15)])
def test_steps_of_the_axis_are_nice(span: Fraction) -> None:
    step = nice_step(span, 12)
    assert 4 <= span / step <= 12
    assert re.fullmatch(r"[125]0*", str(step.numerator))


def test_texts_are_cut_to_the_room_they_have() -> None:
    assert fit("matmul", 10, 100) == "matmul"
    assert text_width(fit("matmul" * 20, 10, 100), 10) <= 100
    assert fit("matmul", 10, 2) == ""
    assert clean("a\n\tb\x00c") == "a b\ufffdc"
