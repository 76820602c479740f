"""Hand-written pipelines: the input file, a proof for every trip count, or the shortest interleaving that breaks it."""
