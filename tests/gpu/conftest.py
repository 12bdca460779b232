"""Marks every test here `gpu`, and skips them, with the reason, where there is no GPU to run on."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))  # for tools.bench
os.environ.setdefault("STRATUM_POISON", "1")  # engines fill their pools and workspaces with NaN


def _why_not() -> str | None:
    """The reason why no test here can run, or None."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    return None if torch.cuda.is_available() else "no CUDA device"


WHY_NOT = _why_not()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a GPU and PyTorch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if WHY_NOT:
                item.add_marker(pytest.mark.skip(reason=WHY_NOT))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if WHY_NOT:
        terminalreporter.write_line(f"GPU tests skipped: {WHY_NOT}")


@pytest.fixture(params=["shipped", "portable"])
def pack(request):
    """Engines of the test take the pack as it ships, then one without the kernels for this very chip, if it has any."""
    from .engines import PORTABLE, chip_arch, taking

    if request.param == PORTABLE and chip_arch() is None:
        pytest.skip("the pack as it ships has portable kernels only for this GPU")
    with taking(request.param):
        yield request.param


@pytest.fixture(scope="session", autouse=True)
def engines_closed():
    """Closes the session's engines at its end."""
    yield
    if not WHY_NOT:
        from .engines import close_all

        close_all()
