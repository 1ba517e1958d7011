"""Classify vectors into classes that can change at any time, without training.

open_set     OpenSet, the classifier: add, remove, merge, split and predict classes; calibration
predictions  Prediction; distances to probabilities and "none of these"; how temperature and threshold are chosen
class_table  the labelled classes inside an OpenSet, and what may be a label
moments      counts, sums and scatter of classes, kept exact as rows come and go; the cells of ncmc
prototypes   scores of rows for all classes by one matrix product
hierarchy    which class is a kind of which, and prior means for classes with few images
knn          KnnClassifier, k nearest neighbours over any index (library only)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
