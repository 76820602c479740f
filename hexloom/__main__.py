"""``python -m hexloom``."""

from __future__ import annotations

import sys

from hexloom.cli import main

sys.exit(main())
