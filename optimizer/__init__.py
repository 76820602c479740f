"""From a workload and a machine to a checked schedule."""
