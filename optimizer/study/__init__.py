"""`hexloom study`: the same work in four ways, without one thing at a time, and over ranges of its numbers."""
