"""Machine files: every hardware number with its unit, source and confidence, and the cost of work on an engine."""
