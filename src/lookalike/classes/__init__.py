"""Classify vectors into classes that can change at any time, without training.

open_set     OpenSet, the classifier: add, remove, merge, split and predict classes; calibration
predictions  Prediction; probabilities and "none of these" from distances; choice of temperature and threshold
held_out     distances from images to classes without these images, for calibration
class_table  the labelled classes inside an OpenSet, and the check of labels
moments      counts, sums and scatter of classes, exact after additions and removals; the cells of ncmc
prototypes   scores of rows for all classes by one matrix product
hierarchy    a hierarchy of classes, and prior means for classes with few images
words        Words: words as weights over the 1,000 ImageNet classes of the default network, with WordNet
knn          KnnClassifier, k nearest neighbours over any index (library only)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
