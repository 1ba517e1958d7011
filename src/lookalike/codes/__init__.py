"""Vectors as a few bytes each: coders, packed bits, and what codes can be asked."""
