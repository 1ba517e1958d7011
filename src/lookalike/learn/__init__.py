"""Metrics learned from labels, (n, d) to (n, D): after them Euclidean distance tells classes apart."""
