"""Show, ask, learn: marks in, a ranking and the next questions out."""
