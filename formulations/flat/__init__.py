"""The flat formulation in CP-SAT: every op a variable, one file per family of constraints."""
