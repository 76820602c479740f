"""Tasks of thousands of equal tiles: loops rolled, scheduled modulo an interval, written down in constant size."""
