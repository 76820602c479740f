"""The report of every example opens in a browser, wide and on a phone, without a word on the console."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser.conftest import PHONE, WIDE, settle

from hexloom import Workload, solve, solve_periodic
from hexloom.emit.report import periodic_report_html, report_html

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FLAT = sorted(
    str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/*.yaml") if "tasks:" in path.read_text("utf-8")
)
LOOPS = "million_tiles/workload.yaml"

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def report_of(name: str) -> str:
    work = Workload.load(EXAMPLES / name)
    if name == LOOPS:
        return periodic_report_html(solve_periodic(work, seed=1, time_limit_s=0.5))
    schedule = solve(work, seed=1, time_limit_s=0.1).schedule
    assert schedule is not None
    return report_html(schedule)


@pytest.mark.parametrize("name", FLAT)
def test_the_report_of_an_example_opens(name: str, opened: Callable[..., Any]) -> None:
    html = report_of(name)
    for size, scheme in ((WIDE, "light"), (PHONE, "dark")):
        page = opened(html, size, scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("#timeline").focus()
        for key in ("ArrowRight", "+", "n", "0"):
            page.keyboard.press(key)
            settle(page)
        assert page.locator("#details h3").inner_text()
        if name == LOOPS:
            page.get_by_role("button", name="One period of phase 1").click()
            settle(page)
            seen = page.evaluate("state.t1 - state.t0")
            period = page.evaluate("D.periods[0][2] - D.periods[0][1]")
            assert seen == pytest.approx(period)
