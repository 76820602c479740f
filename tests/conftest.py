"""Hypothesis profiles, the case files that lie beside the repository, and the program that runs tables here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from effort import USUAL
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.hosts import Host

SLOW_BY_NATURE = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)

settings.register_profile("dev", max_examples=USUAL, deadline=None, suppress_health_check=SLOW_BY_NATURE)
settings.register_profile("deep", settings.get_profile("dev"), max_examples=20 * USUAL)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(scope="session")
def shared_cases() -> Path:
    """Return the folder of case files; the test is skipped where there is none."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "cases"
    if not folder.is_dir():
        pytest.skip("shared case files are not beside this repository")
    return folder


@pytest.fixture(scope="session")
def shared_instances() -> Path:
    """Return the folder of public instances; the test is skipped where there is none."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "instances"
    if not folder.is_dir():
        pytest.skip("shared instances are not beside this repository")
    return folder


@pytest.fixture(scope="session")
def host_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Host]:
    """Build the program that runs tables on this host, in the way that is asked for, once."""
    from runtime.hosts import build

    known: dict[str, Host] = {}

    def one(how: str) -> Host:
        if how not in known:
            known[how] = build(how, tmp_path_factory.mktemp(f"host_{how}"))
        return known[how]

    return one


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """Return the folder of third-party traces; the test is skipped where there is none."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip("shared traces are not beside this repository")
    return folder
