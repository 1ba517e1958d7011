"""Benches of Lookalike: tables of figures that `lookalike bench` fills, one cell at a time.

The core package never imports this one; it is attached to the command line by an entry point.

How a table is filled and shown:

- `tables`: what a bench, a cell and a score are; all benches by name
- `jobs`: fill cells in several processes
- `results`: save cells as JSON lines and resume a run
- `report`: one page of results, with a verdict on each figure that a paper reports
- `plot`: draw a table
- `cli`: the command `lookalike bench`

What is measured on, and how:

- `datasets`: the image sets of the data folder
- `published_sets`: Holidays, Oxford5k, NUS-WIDE and others, in their published layout
- `vectors`: image sets as vectors, cached on request
- `measures`: one function per measure of a ranking

The benches, a file each:

- `retrieval`: how well each recipe ranks an image set
- `feedback`: how many marks an emulated user needs
- `slem`: encoders against a pool of negatives
- `hashing`: how well binary codes rank
- `ncm`: metric learning for classification, new classes and retrieval
- `dfk`: Fisher kernels and metrics for retrieval
- `hyperplane`: searches for the best rows of a hyperplane
- `scaling`: what every operation costs as a collection grows
- `peers`: Lookalike side by side with other libraries; `side_by_side` times both, `search_peers` has indexes and
  hyperplane searches, `metric_learn_fit` is a program that runs in the environment of metric-learn, `bc_tree` is a tree
  for linear hyperplanes
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
