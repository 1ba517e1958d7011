from .access import Access as Access
from .app import create_app as create_app
from .http_server import serve as serve
from .settings import Budget as Budget
from .settings import Rates as Rates
from .settings import Settings as Settings
