"""What the packaging tests look at: the assembled folder, the emulator."""

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
def emulator() -> Path:
    """The emulator's library, which stands in libcuda's place."""
    return built("build/release/tools/emulator/libstratum_emulator.so", "build")
