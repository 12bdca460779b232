"""Writes _stratum_binding.py, the cffi binding of libstratum.so, from the C header. Run when the package is assembled:

    python _build_binding.py stratum.h _stratum_binding.py

The binding is an out-of-line ABI module: plain Python that needs no compiler, and at run time no more of cffi than its
`_cffi_backend` extension. Of the header's contents the package's sources repeat only its version (library.py) and a
stratum_array's layout and constants (arrays.py), as plain numbers that cost a call nothing; tests compare them with it.
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

from cffi import FFI
from cffi.recompiler import make_py_source

MODULE = "_stratum_binding"


def declarations(header: str) -> str:
    """A header's declarations in the form that cffi parses: no comments, no preprocessor but integer #defines."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    lines = []
    for line in text.splitlines():
        constant = re.fullmatch(r"#define\s+(\w+)\s+\(?(-?\d+)\)?\s*", line)
        if constant:
            lines.append(f"#define {constant[1]} {constant[2]}")
        elif not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines)


def binding(header: str) -> str:
    """Source text of the binding module for a header's text."""
    ffi = FFI()
    ffi.cdef(declarations(header))
    ffi.set_source(MODULE, None)
    module = io.StringIO()
    make_py_source(ffi, MODULE, module)
    # The backend may be the one that travels with the package, so it comes from there.
    absolute, relative = r"^import _cffi_backend$", "from ._backend import _cffi_backend"
    source, found = re.subn(absolute, relative, module.getvalue(), flags=re.MULTILINE)
    if found != 1:
        raise RuntimeError(f"cffi's generated code imports _cffi_backend {found} times, expected once")
    return source


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the cffi binding of libstratum.so from its C header.")
    parser.add_argument("header", type=Path, help="stratum.h")
    parser.add_argument("output", type=Path, help="the module to write")
    arguments = parser.parse_args()
    arguments.output.write_text(binding(arguments.header.read_text()))


if __name__ == "__main__":
    main()
