"""`python -m lookalike` is the command line."""

from lookalike.cli import main

main()
