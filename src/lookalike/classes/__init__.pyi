from .hierarchy import Hierarchy as Hierarchy
from .hierarchy import cluster_hierarchy as cluster_hierarchy
from .knn import KnnClassifier as KnnClassifier
from .open_set import OpenSet as OpenSet
from .predictions import Prediction as Prediction
from .predictions import predict_from_distances as predict_from_distances
from .words import Term as Term
from .words import Words as Words
