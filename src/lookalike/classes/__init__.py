"""Classes that never stop growing: images with names in, names for new images out."""
