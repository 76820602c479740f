"""Measured traces: importers into one neutral form, what they say, and how they differ from a schedule."""
