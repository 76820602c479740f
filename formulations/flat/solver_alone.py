"""CP-SAT without pandas, for the child: its Python layer wants that for tables of variables, which no model here has.

To load pandas takes longer than all else that the child loads, and a problem of a hundred ops is often solved sooner.
"""

from __future__ import annotations

import sys
from types import ModuleType


class _Nothing:
    """What stands for the classes of tables: nothing is one."""


def without_pandas() -> None:
    """Load CP-SAT with names instead of pandas; who imports pandas afterwards gets pandas."""
    if "pandas" in sys.modules:
        return
    names = ModuleType("pandas")
    vars(names).update(Series=_Nothing, Index=_Nothing)
    sys.modules["pandas"] = names
    try:
        import ortools.sat.python.cp_model  # noqa: F401
    finally:
        del sys.modules["pandas"]


without_pandas()
