"""Exact search over events for small problems: at every event some of the startable actions begin, or none."""
