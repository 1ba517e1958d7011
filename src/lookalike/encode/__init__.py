"""Transforms of vectors, (n, d) to (n, D): after them plain Euclidean distance is right."""
