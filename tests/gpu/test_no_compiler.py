"""The assembled folder, copied elsewhere, runs every mode with the driver alone: no framework, no CUDA, no compiler."""

import json
import os
import shutil
from pathlib import Path

import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tools.bench.assembled import submission_folder

from .engines import KV_HEADS, config, engine
from .processes import finish, start
from .reference import GRADIENT_NAMES
from .serving import Cache, rows
from .tensors import Inputs, assert_same_bits, bits, generator, random_array, random_inputs

FOREIGN = ("nvrtc", "nvptxcompiler", "ptxjitcompiler", "ptxas", "nvjitlink", "nvvm", "libcudart", "triton", "llvm")
CUDA_FILES = ("nvcc", "ptxas", "libnvrtc.so", "libcudart.so")


def _without_cuda(variable: str) -> str:
    """A search path less the folders that hold a CUDA toolkit."""
    folders = os.environ.get(variable, "").split(os.pathsep)
    return os.pathsep.join(f for f in folders if f and not any((Path(f) / name).exists() for name in CUDA_FILES))


@pytest.mark.parametrize("head_dim, gate_dim", [(64, 32), (128, 64)])
def test_copied_folder_without_a_compiler(tmp_path: Path, head_dim: int, gate_dim: int):
    folder, home = tmp_path / "some_engine", tmp_path / "home"
    shutil.copytree(submission_folder(), folder)
    home.mkdir()
    settings = config(head_dim, gate_dim, 4)
    inputs = random_inputs((1, 150), 4 * KV_HEADS, KV_HEADS, head_dim, gate_dim, torch.bfloat16, generator(1))
    do = random_array(tuple(inputs.q.shape), torch.bfloat16, generator(2))
    words = {name: bits(x).cpu().numpy().view(numpy.uint16) for name, x in (*inputs._asdict().items(), ("do", do))}
    numpy.savez(tmp_path / "inputs.npz", config=json.dumps(settings), **words)
    process = start(
        "without_torch",
        folder,
        tmp_path / "inputs.npz",
        tmp_path / "outputs.npz",
        HOME=str(home),
        PATH=_without_cuda("PATH"),
        LD_LIBRARY_PATH=_without_cuda("LD_LIBRARY_PATH") or None,
        CUDA_HOME=None,
        CUDA_PATH=None,
        STRATUM_SUBMISSION=None,
    )
    facts = json.loads(finish(process))
    assert str(folder / "libstratum.so") in facts["mapped"]
    assert [f for f in facts["mapped"] if any(name in Path(f).name.lower() for name in FOREIGN)] == []
    assert "torch" not in facts["modules"] and "triton" not in facts["modules"]
    cached = [file for file in home.rglob("*") if file.is_file() and file.name != "index"]
    assert cached == [], "the driver cached what it compiled"

    built = engine(head_dim, gate_dim, 4)
    o, saved = built.forward(*inputs)
    expected = dict(zip(("o", *GRADIENT_NAMES), (o, *built.backward(saved, do))))
    with Cache(built) as cache:
        sequence, tokens = cache.create(), Inputs(*(x[0] for x in inputs))
        expected["prefill"] = cache.prefill({sequence: rows(tokens, 0, 147)})[sequence]
        expected["decode"] = cache.decode({sequence: rows(tokens, 147, 150)})[sequence]
    results = numpy.load(tmp_path / "outputs.npz")
    assert set(results.files) == set(expected)
    for name, right in expected.items():
        ours = torch.from_numpy(results[name].view(numpy.int16)).to("cuda").view(torch.bfloat16)
        assert_same_bits(name, ours, right)
