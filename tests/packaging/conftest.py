"""What the packaging tests look at: the assembled folder, the stand-in driver."""

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def built(path: str, target: str) -> Path:
    """A build product; fails the test with the command that makes it."""
    product = REPOSITORY / path
    if not product.exists():
        pytest.fail(f"{path} is missing; `make {target}` makes it")
    return product


@pytest.fixture(scope="session")
def submission() -> Path:
    """The assembled folder."""
    return built("build/submission", "submission")


@pytest.fixture(scope="session")
def fake_driver() -> Path:
    """A library with libcuda's names that allocates and records launches."""
    return built("build/release/tests/fake_driver/libfakecuda.so", "build")
