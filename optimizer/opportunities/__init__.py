"""`hexloom opportunities`: which independent work a real graph has, and what running it together could save."""
