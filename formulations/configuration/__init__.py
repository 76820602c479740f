"""The configuration bound: what may run together, priced, as a lower bound on the makespan."""
