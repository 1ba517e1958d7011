"""`python -m lookalike.cli`: the `lookalike` command where its script is not on the path.

In: the words after the module's name. Out: an exit code.
"""

from lookalike.cli import main

if __name__ == "__main__":  # the processes that read pictures import this module too
    main()
