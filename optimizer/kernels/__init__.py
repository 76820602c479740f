"""The kernel library: each kernel as tiles of work for engines, with the loop people run today."""
