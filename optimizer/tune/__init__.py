"""`hexloom tune`: the parameters of one kernel on one machine, chosen by simulating and solving."""
