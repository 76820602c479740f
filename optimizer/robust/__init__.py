"""Plans for durations that scatter: Monte-Carlo on the simulator, and the choice among many orders."""
