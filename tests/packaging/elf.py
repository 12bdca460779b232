"""Questions to an ELF file, answered by binutils."""

import re
import subprocess
from pathlib import Path


def readelf(option: str, file: Path) -> str:
    """binutils' view of an ELF file."""
    return subprocess.run(["readelf", "--wide", option, file], check=True, capture_output=True, text=True).stdout


def needed_libraries(file: Path) -> set[str]:
    """The shared libraries that an ELF file asks for."""
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", file)))


def newest_glibc(file: Path) -> tuple[int, ...]:
    """The newest version of glibc's symbols that an ELF file needs, such as (2, 14)."""
    versions = re.findall(r"GLIBC_([0-9.]+)", readelf("--version-info", file))
    return max(tuple(map(int, version.split("."))) for version in versions)


def exported_symbols(file: Path) -> set[str]:
    """Names that an ELF file defines for others."""
    rows = (line.split() for line in readelf("--dyn-syms", file).splitlines())
    return {
        row[7].split("@")[0]
        for row in rows
        if len(row) >= 8 and row[4] in ("GLOBAL", "WEAK") and row[6] != "UND" and row[0][:-1].isdigit()
    }
