"""The generated binding and what Python knows by itself of the C interface."""

from __future__ import annotations

import ast
import re
import struct

import submission
from conftest import HEADER, binding
from submission import arrays, library


def test_the_fields_of_an_array_are_the_headers():
    ffi, _ = library.load()
    layout = struct.Struct("@" + arrays.FIELDS)
    fields = dict(ffi.typeof("stratum_array").fields)
    assert list(fields) == ["data", "shape", "stride", "rank", "dtype", "device", "reserved", "dtype_name"]
    assert layout.size == ffi.sizeof("stratum_array")
    values = (1 << 63, 2, 3, 4, 5, -6, 7, 8, 9, 10, 11, -1, 0, 0)
    assert len(values) == arrays.FIELD_COUNT
    array = ffi.new("stratum_array*")
    layout.pack_into(ffi.buffer(array), 0, *values)
    assert (array.data, list(array.shape), list(array.stride)) == (1 << 63, [2, 3, 4, 5], [-6, 7, 8, 9])
    assert (array.rank, array.dtype, array.device, array.dtype_name) == (10, 11, -1, ffi.NULL)


def test_the_constants_are_the_headers():
    _, lib = library.load()
    assert lib.stratum_abi_version() == lib.STRATUM_ABI_VERSION == library.ABI_VERSION
    assert arrays.HOST_MEMORY == lib.STRATUM_HOST_MEMORY
    for name in ("BFLOAT16", "FLOAT16", "RAW16", "OTHER"):
        assert getattr(arrays, name) == getattr(lib, f"STRATUM_{name}")


def test_every_status_has_its_exception():
    _, lib = library.load()
    raised = {}
    for name in dir(lib):
        value = getattr(lib, name)
        if name.startswith("STRATUM_") and name.endswith(("_ERROR", "_SEQUENCE", "_EXHAUSTED", "_KERNEL", "_LIMIT")):
            try:
                library.check(value)
            except submission.EngineError as error:
                raised[name] = type(error)
    assert len(raised) == 13
    assert raised.pop("STRATUM_INTERNAL_ERROR") is submission.EngineError
    assert len(set(raised.values())) == 12
    assert submission.EngineError not in raised.values()


def test_the_binding_has_every_function_of_the_header():
    ffi, lib = library.load()
    text = HEADER.read_text()
    functions = re.findall(r"^[\w *]+?\b(stratum_\w+)\(", text, flags=re.MULTILINE)
    assert len(functions) > 20
    for name in functions:
        assert ffi.typeof(getattr(lib, name)).kind == "function"


def test_generating_is_repeatable_and_imports_the_packages_backend():
    source = binding(HEADER.read_text())
    assert source == binding(HEADER.read_text())
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert [(node.level, node.module) for node in imports] == [(1, "_backend")]
