"""Pictures: where they lie (sources), how they become pixels (read, workers), and some of our own (demo)."""
