"""Integer problems and how they are solved: bounds, list scheduling, local search. Knows no hardware."""
