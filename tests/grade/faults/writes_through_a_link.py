"""Writes outside its scratch folder by way of a link inside it, and of `..` behind the link."""

import os
import tempfile

from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403

_folder = os.path.dirname(os.path.abspath(__file__))
os.symlink(os.path.join(_folder, "."), os.path.join(tempfile.gettempdir(), "link"))
try:
    open(os.path.join(tempfile.gettempdir(), "link", "..", "victim"), "w").close()
except OSError:
    pass
