"""libstratum.so as it ships: what it needs of the system, and what it shows."""

import re
from pathlib import Path

from elf import exported_symbols, needed_libraries, newest_glibc, readelf

REPOSITORY = Path(__file__).parents[2]
HEADER = (REPOSITORY / "runtime" / "include" / "stratum.h").read_text()
README = (REPOSITORY / "README.md").read_text()


def test_it_links_to_the_c_library_alone(submission):
    assert needed_libraries(submission / "libstratum.so") <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


def test_it_searches_no_folder_of_the_build(submission):
    assert not re.search(r"RPATH|RUNPATH", readelf("--dynamic", submission / "libstratum.so"))


def test_it_needs_no_newer_glibc_than_the_readme_says(submission):
    stated = re.search(r"glibc (\d+)\.(\d+) or newer", README)
    assert newest_glibc(submission / "libstratum.so") <= (int(stated[1]), int(stated[2]))


def test_it_exports_the_functions_of_the_header_and_nothing_else(submission):
    declared = set(re.findall(r"\b(stratum_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)))
    assert len(declared) > 20
    assert exported_symbols(submission / "libstratum.so") == declared
