"""The report in a real browser: what a hand, a keyboard and a screen reader can do with it, and how it looks."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser.conftest import PHONE, WIDE, settle
from reports import page as report_of
from reports import small as small_schedule
from unit.emit import examples

from hexloom.emit.report import report_html

if TYPE_CHECKING:
    from collections.abc import Callable

    Opened = Callable[..., Any]

pytestmark = pytest.mark.browser

PICTURES = Path(__file__).parent / "pictures"
SMALL = (80, 50)
"""Pictures are compared at this size, so that fonts and edges of a machine do not matter."""

MOST_OFF = 9.0
"""Mean difference of a channel of 255 up to which two small pictures are the same."""

MOST_PAINT_MS = 120
"""Of a whole page of 5,000 ops; it takes a tenth of that on a free core."""


def view(page: Any) -> tuple[float, float]:
    settle(page)
    found = page.evaluate("[state.t0, state.t1]")
    return found[0], found[1]


def chosen(page: Any) -> str:
    settle(page)
    name: str = page.evaluate("state.op < 0 ? '' : OPS.name[state.op]")
    return name


@pytest.mark.parametrize(
    "kind",
    [
        "hostile",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("small", "measured", "whatif", "infeasible")),
    ],
)
def test_every_kind_fits_on_a_screen_and_on_a_phone(kind: str, opened: Opened, tmp_path: Path) -> None:
    html = report_of(kind, tmp_path)
    for size, scheme in ((WIDE, "light"), (PHONE, "dark")):
        page = opened(html, size, scheme)
        wide, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= inner
        assert page.locator("h1").inner_text()
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.slow
def test_the_wheel_and_the_hand_move_the_time(opened: Opened, tmp_path: Path) -> None:
    page = opened(report_of("small", tmp_path))
    page.locator("#pictures").scroll_into_view_if_needed()
    box = page.locator("#timeline").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 40
    whole = view(page)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    assert view(page) == whole  # the page scrolls, unless the picture is in hand
    page.locator("#pictures").scroll_into_view_if_needed()
    page.locator("#timeline").focus()
    box = page.locator("#timeline").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 40
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    near = view(page)
    assert near[1] - near[0] < (whole[1] - whole[0]) * 0.8
    page.mouse.down()
    page.mouse.move(x + 90, y, steps=4)
    page.mouse.up()
    moved = view(page)
    assert moved[0] < near[0]
    assert moved[1] - moved[0] == pytest.approx(near[1] - near[0])
    assert chosen(page) == ""  # a drag is no click
    page.get_by_role("button", name="All").click()
    assert view(page) == whole
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Later").click()
    assert view(page)[0] > whole[0]


@pytest.mark.slow
def test_what_lies_under_the_pointer_is_told(opened: Opened, tmp_path: Path) -> None:
    page = opened(report_of("measured", tmp_path))
    name, x, y = page.evaluate(
        "(() => { const row = rows.find((r) => r.band.engine === 'hmx'); stage.scrollIntoView({block: 'center'});"
        " const b = stage.getBoundingClientRect();"
        " return [OPS.name[row.op[1]], b.left + xOf((row.start[1] + row.end[1]) / 2), b.top + row.y + 4]; })()"
    )
    page.mouse.move(x, y)
    tip = page.locator(".tip").inner_text()
    assert name in tip
    for said in ("hmx", "measured", "MiB", "\u00b5s"):
        assert said in tip
    page.mouse.down()
    page.mouse.up()
    assert chosen(page) == name
    details = page.locator("#details").inner_text()
    for said in (name, "then it", "buffer", "measured", "hmx[0]"):
        assert said in details


def test_the_keyboard_reaches_every_op(opened: Opened, tmp_path: Path) -> None:
    page = opened(report_of("small", tmp_path))
    whole = view(page)
    page.locator("#timeline").focus()
    press = page.keyboard.press
    press("ArrowRight")
    first = chosen(page)
    assert first
    press("ArrowRight")
    second = chosen(page)
    press("ArrowLeft")
    assert chosen(page) == first
    press("End")
    last = chosen(page)
    press("Home")
    assert chosen(page) == first
    press("ArrowDown")
    assert len({first, second, last, chosen(page)}) >= 3
    assert page.locator("#details h3").inner_text() == chosen(page)
    press("+")
    near = view(page)
    assert near[1] - near[0] < whole[1] - whole[0]
    press("Shift+ArrowRight")
    assert view(page)[0] > near[0]
    press("0")
    assert view(page) == whole
    press("Enter")
    assert view(page) != whole
    press("Escape")
    assert chosen(page) == ""
    walked = []
    for _ in range(page.evaluate("D.critical.length")):
        press("n")
        walked.append(chosen(page))
    assert sorted(walked) == sorted(page.evaluate("D.critical.map((k) => OPS.name[k])"))


@pytest.mark.slow
def test_the_tables_hold_every_op_and_lead_to_the_picture(opened: Opened, tmp_path: Path) -> None:
    page = opened(report_of("small", tmp_path))
    ops = small_schedule().problem.ops
    status = page.locator("#op-table [role=status]")
    assert status.inner_text().startswith(f"{len(ops)} rows, page 1 of")
    page.get_by_label("Filter All ops").fill("matmul")
    assert status.inner_text() == f"{sum('matmul' in op.name for op in ops)} rows, page 1 of 1"
    page.locator("#op-table").get_by_role("button", name="start").click()
    starts = page.locator("#op-table tbody td:nth-child(4)").all_inner_texts()
    numbers = [float(text.replace(",", "")) for text in starts]
    assert numbers == sorted(numbers)
    assert page.locator("#op-table th[aria-sort=ascending]").count() == 1
    page.locator("#op-table tbody button.op").first.click()
    assert "matmul" in chosen(page)
    assert page.evaluate("document.activeElement.id") == "timeline"


@pytest.mark.slow
def test_everything_has_a_name_for_those_who_do_not_see(opened: Opened, tmp_path: Path) -> None:
    page = opened(report_of("measured", tmp_path))
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, canvas, a, [role=region]')].filter((e) => !(e.textContent.trim()"
        " || e.getAttribute('aria-label') || (e.labels && e.labels.length))).map((e) => e.outerHTML)"
    )
    assert nameless == []
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((e) => Number(e.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.locator("main").count() == page.locator("nav").count() == 1
    page.locator("#timeline").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    assert page.locator("#said").text_content().startswith(chosen(page))
    page.keyboard.press("Escape")
    assert page.locator("#said").text_content() == ""
    assert all(page.evaluate("[...document.querySelectorAll('table')].map((t) => Boolean(t.caption.textContent))"))
    assert page.evaluate(CONTRAST) == []
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(CONTRAST) == []


CONTRAST = """(() => {
  const linear = (v) => v <= 0.04 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (css) => {
    const [r, g, b] = css.match(/[0-9.]+/g).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const under = (e) => {
    for (; e; e = e.parentElement) {
      const of = getComputedStyle(e).backgroundColor;
      if (!of.startsWith('rgba(') || !of.endsWith(' 0)')) return of;
    }
    return 'rgb(255, 255, 255)';
  };
  return [...document.querySelectorAll('p, td, th, button:not(:disabled), a, h1, h2, h3, li, dd, dt, caption, summary')]
    .filter((e) => e.offsetParent && e.innerText.trim())
    .map((e) => [e, ...[light(getComputedStyle(e).color), light(under(e))].sort((a, b) => b - a)])
    .filter(([, a, b]) => (a + 0.05) / (b + 0.05) < 4.5)
    .map(([e, a, b]) => `${e.outerHTML.slice(0, 80)}: ${(a + 0.05) / (b + 0.05)}`);
})()"""


@pytest.mark.slow
def test_fingers_pan_and_choose(opened: Opened, tmp_path: Path) -> None:
    page = opened(report_of("small", tmp_path), PHONE)
    page.evaluate("stage.scrollIntoView({block: 'center'})")
    x, y = page.evaluate(
        "(() => { const row = rows.find((r) => r.band.engine === 'hmx'), b = stage.getBoundingClientRect();"
        " return [b.left + xOf((row.start[2] + row.end[2]) / 2), b.top + row.y + row.h / 2]; })()"
    )
    page.touchscreen.tap(x, y)
    assert "matmul" in chosen(page)


@pytest.mark.slow
def test_five_thousand_ops_stay_fluid(opened: Opened) -> None:
    page = opened(report_html(examples.back_to_back(5_000)))
    took = []
    for key in ["+"] * 6 + ["Shift+ArrowRight"] * 6 + ["0"] * 2:
        page.locator("#timeline").focus()
        page.keyboard.press(key)
        settle(page)
        took.append(page.evaluate("paintMs"))
    assert sorted(took)[len(took) // 2] < MOST_PAINT_MS


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size", "scheme"), [("wide", WIDE, "light"), ("phone", PHONE, "dark")])
def test_the_pictures_look_as_they_did(
    name: str, size: tuple[int, int], scheme: str, opened: Opened, tmp_path: Path
) -> None:
    """A picture that is to change: run with HEXLOOM_NEW_PICTURES=1, look at it, commit it."""
    image = pytest.importorskip("PIL.Image", reason="needs the extra browser: pip install -e '.[browser]'")
    page = opened(report_of("measured", tmp_path), size, scheme)
    page.evaluate("choose(OPS.name.indexOf('gemm.matmul[2]'))")
    settle(page)
    for part, selector in (("timeline", "#timeline"), ("memory", "#maps canvas")):
        shot = tmp_path / f"{part}.png"
        page.locator(selector).screenshot(path=shot)
        now = image.open(shot).convert("RGB").resize(SMALL, image.Resampling.BOX)
        kept = PICTURES / f"{name}_{part}.png"
        if os.environ.get("HEXLOOM_NEW_PICTURES"):
            now.save(kept, optimize=True)
        was = image.open(kept).convert("RGB")
        assert was.size == now.size
        assert _off(was, now) < MOST_OFF
        blank = image.new("RGB", SMALL, was.getpixel((SMALL[0] - 1, 0)))
        assert _off(was, blank) > 2 * MOST_OFF  # an empty picture would be seen


def _off(one: Any, other: Any) -> float:
    """Return the mean difference of a channel of two pictures."""
    pairs = zip(one.tobytes(), other.tobytes(), strict=True)
    return sum(abs(a - b) for a, b in pairs) / (3 * SMALL[0] * SMALL[1])
