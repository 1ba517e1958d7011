"""Pictures to vectors: each module holds one feature, (height, width, 3) uint8 in, (n, dim) float32 out."""
