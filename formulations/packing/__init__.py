"""Offsets for buffers whose lifetimes are known."""
