from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import NO_PLAN, POINTS, measured, page
from reports import small as small_schedule
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom.cli import main
from hexloom.emit.critical_path import Causes
from hexloom.emit.lanes import View
from hexloom.emit.report import report_html

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("small", "hostile", "measured", "whatif", "infeasible")
VOID = {"meta", "input", "link", "br"}


class Balanced(HTMLParser):
    """Read a page; every element must end in the order of their beginnings, and no identifier may come twice."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def data_of(html: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)[0])
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_one_whole_file_that_asks_nobody(kind: str, tmp_path: Path) -> None:
    html = page(kind, tmp_path)
    read = Balanced(html)
    assert read.open == []
    assert len(read.ids) == len(set(read.ids))
    assert "http" not in html.replace("http-equiv", "")
    assert not re.search(r'(?:src|href)="(?!#)', html)
    assert read.tags.count("h1") == read.tags.count("main") == 1
    assert all(anchor in read.ids for anchor in re.findall(r'href="#([^"]*)"', html))


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    small = small_schedule()
    again = type(small).from_json(small.to_json())
    assert report_html(small, measured(small, tmp_path), POINTS) == report_html(
        again, measured(again, tmp_path), POINTS
    )


def test_names_stay_what_they_are(tmp_path: Path) -> None:
    html = page("hostile", tmp_path)
    name = "</script><script>alert(1)</script> <!-- \u2028"
    assert data_of(html)["ops"]["name"] == [op.name for op in examples.hostile().problem.ops]
    small = small_schedule()
    html = report_html(small.model_copy(update={"name": name}))
    assert "alert(1)</script>" not in html.replace("&lt;/script&gt;", "")
    assert name.replace("\u2028", " ").strip() in " ".join(Balanced(html).words).replace("\u2028", " ")


def test_the_words_of_the_summary(tmp_path: Path) -> None:
    small = small_schedule()
    words = " ".join("".join(Balanced(page("small", tmp_path)).words).split())
    faster = 190_000 / float(small.makespan)
    assert f"{faster:.3f}\u00d7 faster than what runs today: {float(small.makespan) / 1000:,.3f}".rstrip("0") in words
    assert f"At most {float(small.gap):.2%} could still be gained" in words
    assert "does not fit, breaks a deadline, or waits for itself" in words  # serial, which is None here


def test_the_words_of_a_measured_run(tmp_path: Path) -> None:
    small = small_schedule()
    found = measured(small, tmp_path)
    words = " ".join("".join(Balanced(report_html(small, found)).words).split())
    assert f"{found.error:+.2%}" in words
    data = data_of(report_html(small, found))
    assert data["measuredMakespan"] == pytest.approx(float(small.us(found.makespan.measured)), abs=1e-6)
    assert all(start <= end for start, end in data["measured"])


def test_the_words_where_there_is_no_plan(tmp_path: Path) -> None:
    words = " ".join(Balanced(page("infeasible", tmp_path)).words)
    for said in (
        "There is no plan",
        "x</script>",
        "split x",
        "fits; any less is not enough",
        "12.5 us",
        "each of them",
    ):
        assert said in words
    assert NO_PLAN.message.split("<b>")[0] in words


def test_the_words_of_what_if(tmp_path: Path) -> None:
    words = " ".join(Balanced(page("whatif", tmp_path)).words)
    for row in POINTS.rows:
        assert f"{row.value} MiB" in words
    for said in ("INFEASIBLE", "140.5", "131*", "vtcm (as it is)", "gemm.load[0]"):
        assert said in words


@given(seed=st.integers(0, 10**6))
@settings(max_examples=25)
def test_the_chain_leads_from_the_entry_to_the_end_without_a_hole(seed: int) -> None:
    schedule = random_schedule(seed)
    view = View(schedule)
    causes = Causes(view)
    chain = causes.chain()
    assert chain[0].start == schedule.problem.entry_ticks
    assert chain[-1].end == schedule.makespan
    for before, after in pairwise(chain):
        assert (before.end, before.op) == (after.start, after.cause.op)
    assert all(step.cause.why != "unknown" for step in chain)
    for i, row in enumerate(view.rows):
        cause = causes.of(i)
        assert (cause.why == "entry") == (row.start <= schedule.problem.entry_ticks)


def test_the_command_writes_beside_the_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = small_schedule().model_copy(update={"baselines": {}})
    (tmp_path / "schedule.json").write_text(small.to_json(), encoding="utf-8")
    assert main(["report", str(tmp_path / "schedule.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": {"report.html": str(tmp_path / "report.html")}}
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report_html(small)
    (tmp_path / "no.json").write_text(NO_PLAN.to_json(), encoding="utf-8")
    assert main(["report", str(tmp_path / "no.json"), "-o", "-"]) == 0
    assert "There is no plan" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "no.json"), "--trace", str(tmp_path / "no.json")]) == 2
    assert "--trace and --what-if belong to a schedule" in capsys.readouterr().err
    wrong = small.model_copy(update={"makespan": small.makespan - 1})
    (tmp_path / "wrong.json").write_text(wrong.to_json(), encoding="utf-8")
    assert main(["report", str(tmp_path / "wrong.json"), "-o", str(tmp_path / "wrong.html")]) == 4
    assert not (tmp_path / "wrong.html").exists()
