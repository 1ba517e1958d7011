"""Benchmarks of Lookalike: tables of measurements that `lookalike bench` fills, one cell at a time.

The core package never imports this one; it is attached to the command line by an entry point.

How a table is filled and shown:

- `tables`: classes for benchmarks, cells and scores; all benchmarks by name
- `jobs`: fill cells in several processes
- `results`: save cells as JSON lines and resume a run
- `report`: one page of results, compared with those of the papers
- `plot`: draw a table
- `cli`: the command `lookalike bench`

Data and measures:

- `datasets`: the datasets in the data folder
- `published_sets`: Holidays, Oxford5k, NUS-WIDE and others, in their published layout
- `vectors`: datasets as vectors, cached on request
- `measures`: one function per measure of a ranking

Benchmarks, one file each:

- `retrieval`: how well each recipe ranks pictures
- `feedback`: how many marks a simulated user needs
- `slem`: encoders with a pool of negatives
- `hashing`: how well binary codes rank
- `ncm`: metric learning for classification, new classes and retrieval
- `openset`: rejection of pictures of other classes, and calibrated probabilities
- `dfk`: Fisher kernels and metrics for retrieval
- `words`: searches and sessions that start from words
- `hyperplane`: searches for the best vectors of a hyperplane
- `scaling`: the cost of every operation as a collection grows
- `peers`: comparison with other libraries. `side_by_side` times both sides, `search_peers` contains indexes and
  hyperplane searches, `metric_learn_fit` is a program that runs in the environment of metric-learn, `bc_tree` is a tree
  for linear hyperplanes
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
