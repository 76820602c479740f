"""Hypothesis profiles, and the case files that lie beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SLOW_BY_NATURE = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=SLOW_BY_NATURE)
settings.register_profile(
    "ci", max_examples=50, deadline=None, derandomize=True, suppress_health_check=SLOW_BY_NATURE, print_blob=True
)
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
def shared_traces() -> Path:
    """Return the folder of third-party traces; the test is skipped where there is none."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip("shared traces are not beside this repository")
    return folder
