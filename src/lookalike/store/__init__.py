"""The collection's directory: what images are (catalogue, vectors), what people said (judgements), saved models."""
