"""``python -m hexloom``, and what the command ``hexloom`` starts."""

from __future__ import annotations

import sys

from hexloom.streams import patient_streams


def run() -> int:
    """Load the command line and run it; Ctrl-C while it loads ends like Ctrl-C before a plan."""
    patient_streams()
    try:
        from hexloom.cli import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("hexloom: interrupted before a plan was ready\n")
        return 3


if __name__ == "__main__":
    sys.exit(run())
