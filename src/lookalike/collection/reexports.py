"""Names of lower layers that the edges use: they import `lookalike.collection` and nothing below it."""

from lookalike.classes import Prediction as Prediction
from lookalike.store.backup import BackupReport as BackupReport
from lookalike.store.classes import StoredPrediction as StoredPrediction
from lookalike.store.items import Filter as Filter
from lookalike.store.items import Item as Item
from lookalike.store.items import Order as Order
from lookalike.store.sessions import Summary as Summary
from lookalike.types import format_id as format_id
from lookalike.types import parse_id as parse_id
