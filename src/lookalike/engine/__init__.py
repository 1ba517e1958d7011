"""Where algorithms and storage meet: what `Collection` is made of; the planner and its curves are used beside it.

In: a store and what a person asks. Out: what the methods of `Collection` return. By subject:

    chain, specs, vocabulary                       from pictures to the vectors of a space
    spaces, space_*, refit, negatives              which spaces there are, their indexes, and how they are fitted
    calibration, variants, compression             how their options are chosen, and what each step is worth
    intake, ingest, presence, gone                 files that come and go
    words, examples, looks, pages, search, where   finding pictures
    marks, feedback, simulate, explain, why        sessions, and why a picture is where it is
    classes, class_*, guesses, evaluation, labels  classes
    duplicates, stars, kept_groups, map, export    groups, the map, and files for other tools
    stats, plan, costs, machine, subject           figures, measured and foretold
    calm, upkeep                                   threads that rest; a collection that stays whole
"""
