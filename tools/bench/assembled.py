"""Finds and imports the assembled engine, the folder that ships (`make submission`)."""

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]


def submission_folder() -> Path:
    """The folder named by STRATUM_SUBMISSION, else build/submission. FileNotFoundError if no package is there."""
    folder = Path(os.environ.get("STRATUM_SUBMISSION") or REPOSITORY / "build" / "submission").resolve()
    if not (folder / "__init__.py").is_file():
        raise FileNotFoundError(
            f"{folder}: no assembled engine there; run `make submission`, or name its folder in STRATUM_SUBMISSION"
        )
    return folder


def load_submission(folder: Path | None = None) -> ModuleType:
    """Imports `folder` (by default submission_folder()) as a package, under whatever name the folder has."""
    folder = folder or submission_folder()
    sys.path.insert(0, str(folder.parent))
    try:
        return importlib.import_module(folder.name)
    finally:
        sys.path.remove(str(folder.parent))
