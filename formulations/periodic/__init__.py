"""Loops: the smallest interval at which iterations of a body can start, with units and addresses."""
