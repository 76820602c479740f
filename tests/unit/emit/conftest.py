from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.emit import examples

if TYPE_CHECKING:
    from hexloom.optimizer.schedule import Schedule


@pytest.fixture(scope="session")
def small() -> Schedule:
    return examples.small()


@pytest.fixture(scope="session")
def large() -> Schedule:
    return examples.large()


@pytest.fixture(scope="session")
def hostile() -> Schedule:
    return examples.hostile()
