from .connection import Cluster as Cluster
