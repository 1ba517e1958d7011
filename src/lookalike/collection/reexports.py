"""Names of lower layers for the command line and the service, which import `lookalike.collection` and nothing below."""

from lookalike.classes import Prediction as Prediction
from lookalike.images.decoding import identify as identify
from lookalike.images.decoding import read as read
from lookalike.images.demo import draw_folder as draw_folder
from lookalike.images.files import LIMITS as LIMITS
from lookalike.images.files import Limits as Limits
from lookalike.images.sources import SUFFIXES as SUFFIXES
from lookalike.images.sources import Entry as Entry
from lookalike.images.sources import leads_inside as leads_inside
from lookalike.images.workers import ReadPool as ReadPool
from lookalike.index.threads import CORES as CORES
from lookalike.store.backup import Backup as Backup
from lookalike.store.backup import BackupReport as BackupReport
from lookalike.store.backup import check_target as check_target
from lookalike.store.classes import StoredPrediction as StoredPrediction
from lookalike.store.items import Filter as Filter
from lookalike.store.items import Item as Item
from lookalike.store.items import Order as Order
from lookalike.store.jobs import JobLedger as JobLedger
from lookalike.store.jobs import verify_jobs as verify_jobs
from lookalike.store.repair import repair_jobs as repair_jobs
from lookalike.store.sessions import Summary as Summary
from lookalike.store.sharing import ShareReport as ShareReport
from lookalike.types import format_id as format_id
from lookalike.types import parse_id as parse_id
