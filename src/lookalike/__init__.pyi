from .collection import Collection as Collection
from .collection import Crop as Crop
from .images.decoding import read as read
from .progress import show_progress as show_progress
from .registry import create as create
from .store.items import Filter as Filter
from .store.models import load as load
from .store.models import save as save

__version__: str
