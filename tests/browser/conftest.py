"""A real Chromium, headless: found on this machine, or the tests that need it are skipped and say so."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WIDE, PHONE = (1280, 800), (390, 844)
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Start the browser once; `HEXLOOM_CHROMIUM` names it where it has another name."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra browser: pip install -e '.[browser]'")
    found = os.environ.get("HEXLOOM_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine; install Debian's package chromium, or name one in HEXLOOM_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a report; whatever the page asks of the network, or says on the console, fails the test at its end."""
    faults: list[str] = []
    contexts = []

    def one(html: str, size: tuple[int, int] = WIDE, scheme: str = "light") -> Any:
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        touch = size == PHONE
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            has_touch=touch,
            reduced_motion="reduce",
            offline=True,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("request", lambda r: None if r.url.startswith("file:") else faults.append(f"asks for {r.url}"))
        page.goto(path.as_uri())
        settle(page)
        return page

    yield one
    for context in contexts:
        context.close()
    assert faults == []


def settle(page: Any) -> None:
    """Wait until what was asked to be painted is painted."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
