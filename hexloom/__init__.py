"""hexloom: provably good static co-schedules for neural processing units."""
