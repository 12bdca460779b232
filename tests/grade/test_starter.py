"""The starter against float64, and against its own account of its memory.

pytest's Python has no torch, so this file is also a program for one that has: it runs every check there is and prints
as JSON what each came to, and the tests report that.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
import weakref
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"  # Debian's, for which `make setup` installs torch
DTYPES = ("bfloat16", "float16")
GRADIENTS = ("dq", "dk", "dv", "dqg", "dkg")
MIB = 1 << 20
POISON = 0x7FFF  # a NaN in both dtypes

CHECKS = {}


def check(function):
    """A function that raises if the starter is wrong."""
    CHECKS[function.__name__] = function
    return function


# ---- What pytest sees


@functools.cache
def outcomes() -> dict[str, str]:
    """Each check's traceback, "" if it passed."""
    done = subprocess.run([PYTHON, __file__], capture_output=True, text=True, timeout=300, cwd=tempfile.gettempdir())
    assert "No module named 'torch'" not in done.stderr, f"{PYTHON} has no torch: `make setup` installs it"
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pytest_generate_tests(metafunc) -> None:
    metafunc.parametrize("name", CHECKS)


def test_starter(name: str) -> None:
    trouble = outcomes()[name]
    assert not trouble, trouble


# ---- Arrays and engines


def settings(**changes) -> dict:
    """A configuration, small."""
    base = {"head_dim": 64, "gate_dim": 32, "q_heads": 4, "kv_heads": 2, "max_sequences": 8, "max_seq_len": 512}
    return {**base, "max_cached_tokens": 1024, **changes}


def shapes(config: dict, *rows: int) -> list[tuple[int, ...]]:
    """Of q, k, v, qg, kg."""
    q, kv, d, r = (config[key] for key in ("q_heads", "kv_heads", "head_dim", "gate_dim"))
    return [(*rows, q, d), (*rows, kv, d), (*rows, kv, d), (*rows, q, r), (*rows, kv, r)]


def draw(config: dict, *rows: int, seed: int = 1) -> list[np.ndarray]:
    """Random q, k, v, qg, kg as raw bits."""
    rng = np.random.default_rng(seed)
    return [to_bits(rng.standard_normal(each), config.get("dtype", "bfloat16")) for each in shapes(config, *rows)]


def poisoned(shape) -> np.ndarray:
    return np.full(shape, POISON, np.uint16)


def spaced(bits: np.ndarray) -> np.ndarray:
    """The same values with gaps between heads and between rows."""
    *rows, heads, dim = bits.shape
    wide = poisoned((*rows, heads + 1, dim + 16))
    wide[..., :heads, :dim] = bits
    return wide[..., :heads, :dim]


def train(engine, inputs: list[np.ndarray], do: np.ndarray) -> list[np.ndarray]:
    """o and the five gradients of one step, as raw bits."""
    o, gradients = poisoned(inputs[0].shape), tuple(poisoned(each.shape) for each in inputs)
    _, saved = engine.forward(*inputs, out=o)
    engine.backward(saved, do, out=gradients)
    return [o, *gradients]


def judge_training(config: dict, inputs: list[np.ndarray], do: np.ndarray, results: list[np.ndarray]) -> None:
    """Holds every row of a batch against the accuracy rule."""
    dtype = config.get("dtype", "bfloat16")
    for row in range(len(do)):
        x, upstream = reference.Inputs(*(from_bits(each[row], dtype) for each in inputs)), from_bits(do[row], dtype)
        right, yard = (
            [reference.forward(x, how), *reference.backward(x, upstream, how)]
            for how in (reference.EXACT, reference.eager(dtype))
        )
        floor = accuracy.floors(dtype, x, upstream)
        for name, *values in zip(("o", *GRADIENTS), results, yard, right):
            verdict = accuracy.judge(name, from_bits(values[0][row], dtype), *values[1:], floor[name])
            assert verdict.ok, str(verdict)


class Model:
    """Drives an engine and remembers what each sequence holds; every output is judged."""

    def __init__(self, engine, config: dict):
        self.engine, self.config, self.dtype = engine, config, config.get("dtype", "bfloat16")
        self.held: dict[int, list[np.ndarray]] = {}  # k, v, kg as raw bits
        self.seed = 0

    def create(self) -> int:
        id = self.engine.create()
        self.held[id] = [draw(self.config, 0)[index] for index in (1, 2, 4)]
        return id

    def fork(self, parent: int) -> int:
        id = self.engine.fork(parent)
        self.held[id] = self.held[parent]
        return id

    def truncate(self, id: int, length: int) -> None:
        self.engine.truncate(id, length)
        self.held[id] = [each[:length] for each in self.held[id]]

    def append(self, mode: str, ids: list[int], lengths: list[int]) -> np.ndarray:
        """Appends random tokens by "prefill" or "decode" and judges the output; returns its raw bits."""
        self.seed += 1
        inputs = draw(self.config, sum(lengths), seed=self.seed)
        out = poisoned(inputs[0].shape)
        assert getattr(self.engine, mode)(ids, *inputs, lengths, out=out) is out
        start = 0
        for id, length in zip(ids, lengths):
            q, k, v, qg, kg = (each[start : start + length] for each in inputs)
            self.held[id] = [np.concatenate(pair) for pair in zip(self.held[id], (k, v, kg))]
            k, v, kg = self.held[id]
            x = reference.Inputs(*(from_bits(each, self.dtype) for each in (q, k, v, qg, kg)))
            o, floor = from_bits(out[start : start + length], self.dtype), accuracy.floors(self.dtype, x)["o"]
            yard, right = reference.forward(x, reference.eager(self.dtype)), reference.forward(x)
            verdict = accuracy.judge(mode, o, yard, right, floor)
            assert verdict.ok, str(verdict)
            assert self.engine.length(id) == len(k)
            start += length
        return out


def raised(function, *arguments, **named) -> Exception:
    """What a call raises."""
    try:
        function(*arguments, **named)
    except Exception as error:
        return error
    raise AssertionError("expected an exception, got none")


# ---- Results


@check
def training_is_accurate():
    for dtype in DTYPES:
        for d, r, q_heads, kv_heads, *rows in ((64, 32, 4, 2, 2, 130), (128, 64, 3, 1, 1, 65), (64, 64, 2, 2, 1, 1)):
            config = settings(head_dim=d, gate_dim=r, q_heads=q_heads, kv_heads=kv_heads, dtype=dtype)
            inputs, do = draw(config, *rows), draw(config, *rows, seed=2)[0]
            with starter.build_engine(config) as engine:
                judge_training(config, inputs, do, train(engine, inputs, do))


@check
def training_in_small_steps_is_accurate():
    """The tightest limit that the engine takes: one head, few queries at a time."""
    config = settings(modes=["training"])
    probe = starter.build_engine({**config, "memory_limit_bytes": 1 << 40})
    smallest = probe._memory.temporaries("backward", 1, 1, 100)
    config["memory_limit_bytes"] = smallest
    inputs, do = draw(config, 1, 100), draw(config, 1, 100, seed=2)[0]
    with starter.build_engine(config) as engine:
        assert engine._memory.step("backward", 100, 100) == (1, 1)
        with Alive() as alive:
            results = train(engine, inputs, do)
        assert smallest / 2 < alive.peak <= smallest, (alive.peak, smallest)
        judge_training(config, inputs, do, results)
        longer = draw(config, 1, 1000)
        assert isinstance(raised(train, engine, longer, longer[0]), starter.MemoryLimitError)
        assert engine.memory()["bytes_peak"] == smallest


@check
def serving_is_accurate():
    """Chunked prompts, empty ones, a fork that diverges, a rejected speculation, decode of several tokens."""
    for dtype in DTYPES:
        config = settings(dtype=dtype)
        with starter.build_engine(config) as engine:
            model = Model(engine, config)
            a, b, empty = model.create(), model.create(), model.create()
            model.append("prefill", [a, empty, b], [100, 0, 37])
            model.append("prefill", [a], [41])
            c = model.fork(a)
            model.append("decode", [a, b, c], [1, 3, 8])
            model.truncate(a, 90)
            model.truncate(c, 145)
            model.append("decode", [c, a], [1, 2])
            engine.release(a)
            model.append("prefill", [c, b], [5, 70])


@check
def strides_do_not_matter():
    config = settings(modes=["training", "prefill"])
    inputs, do = draw(config, 2, 50), draw(config, 2, 50, seed=2)[0]
    with starter.build_engine(config) as engine:
        right = train(engine, inputs, do)
        arrays = [spaced(each) for each in (*inputs, do)]
        before = [each.base.copy() for each in arrays]
        outputs = [spaced(poisoned(each.shape)) for each in right]
        _, saved = engine.forward(*arrays[:5], out=outputs[0])
        engine.backward(saved, arrays[5], out=tuple(outputs[1:]))
        for array, as_before in zip(arrays, before):
            assert np.array_equal(array.base, as_before)
        for output, expected in zip(outputs, right):
            assert np.array_equal(output, expected)
            output[...] = POISON
            assert (output.base == POISON).all(), "a gap was written"
        wide = np.broadcast_to(do[:, :1], do.shape)
        copied, expanded = (train(engine, inputs, each) for each in (wide.copy(), wide))
        assert all(map(np.array_equal, copied, expanded))


@check
def runs_repeat():
    """Two engines, the same calls: the same bytes."""

    def outputs() -> list[np.ndarray]:
        config = settings()
        with starter.build_engine(config) as engine:
            model = Model(engine, config)
            a = model.create()
            served = [model.append("prefill", [a], [130]), model.append("decode", [a, model.fork(a)], [2, 5])]
            inputs = draw(config, 1, 70)
            return served + train(engine, inputs, inputs[0])

    assert all(map(np.array_equal, outputs(), outputs()))


@check
def attention_is_differentiable():
    config = settings(modes=["training"])
    inputs = [torch.from_numpy(each.view(np.int16)).view(torch.bfloat16) for each in draw(config, 1, 30)]
    leaves = [each.clone().requires_grad_() for each in inputs]
    with starter.build_engine(config) as engine:
        o = engine.attention(*leaves)
        o.sum().backward()
        again, saved = engine.forward(*inputs)
        assert torch.equal(o, again) and not again.requires_grad
        for leaf, gradient in zip(leaves, engine.backward(saved, torch.ones_like(again))):
            assert torch.equal(leaf.grad, gradient)
        (once,) = torch.autograd.grad(engine.attention(*leaves).sum(), leaves[0], create_graph=True)
        assert "no second derivative" in str(raised(once.sum().backward))


@check
def nan_stays_in_its_sequence():
    config = settings(max_cached_tokens=200)
    with starter.build_engine(config) as engine:
        model = Model(engine, config)
        a, bad = model.create(), engine.create()
        poison = [np.full_like(each, POISON) for each in draw(config, 100)]
        engine.prefill([bad], *poison, [100], out=poisoned(poison[0].shape))
        model.append("prefill", [a], [50])
        engine.release(bad)
        model.append("prefill", [a, model.create()], [30, 100])


# ---- Failures


@check
def errors_have_their_types():
    config = settings(max_cached_tokens=120, max_sequences=2)
    with starter.build_engine(config) as engine:
        x = draw(config, 10)
        a, gone = engine.create(), engine.create()
        engine.prefill([a], *x, [10], out=poisoned(x[0].shape))
        assert "max_sequences: needed 1 more sequence, 0 free of 2" in str(raised(engine.create))
        assert isinstance(raised(engine.fork, a), starter.PagesExhausted)
        engine.release(gone)
        before = engine.memory()

        def refused(error: str, text: str, mode="prefill", ids=(a,), lengths=(10,), out=None, **arrays) -> None:
            given = {**dict(zip(("q", "k", "v", "qg", "kg"), x)), **arrays}
            out = poisoned(given["q"].shape) if out is None else out
            caught = raised(getattr(engine, mode), list(ids), *given.values(), list(lengths), out=out)
            assert type(caught).__name__ == error and text in str(caught), f"{error}, {text}: {caught!r}"

        refused("UnknownSequence", "released", ids=[gone])
        refused("UnknownSequence", "never created", ids=[99])
        refused("LengthError", "twice", ids=[a, a], lengths=[5, 5])
        refused("LengthError", "a sum of 10", lengths=[9])
        refused("LengthError", "expected 1 entries", lengths=[5, 5])
        refused("LengthError", "got -1", ids=[a, 99], lengths=[11, -1])
        refused("LengthError", "expected 1 to 8", mode="decode", lengths=[10])
        refused("LengthError", "expected 1 to 8", mode="decode", ids=[a, 99], lengths=[0, 10])
        refused("ShapeError", "k: expected shape [10, 2, 64]", k=x[1][:9])
        refused("ShapeError", "qg", qg=x[3][:, :, :16].copy())
        refused("DtypeError", "v: expected bfloat16", v=x[2].astype(np.float32))
        refused("DtypeError", "kg: expected bfloat16", kg=x[4].view(np.float16))
        refused("DtypeError", "got list", q=x[0], v=x[2].tolist())
        refused("StrideError", "last axis", k=np.repeat(x[1], 2, axis=-1)[..., ::2])
        refused("StrideError", "rows aligned", k=np.zeros((10, 2, 68), np.uint16)[..., :64])
        refused("StrideError", "address", kg=np.zeros((10, 2, 64), np.uint16)[..., 4:36])
        refused("StrideError", "lie on one another", out=np.lib.stride_tricks.as_strided(x[0], x[0].shape, (0, 128, 2)))
        refused("StrideError", "got that of q", out=x[0])
        many = draw(config, 111)
        refused("PagesExhausted", "needed 111 tokens, 110 free of 120", lengths=[111], **dict(zip(("q", "k"), many)),
                v=many[2], qg=many[3], kg=many[4])  # fmt: skip
        many = draw(config, 503)
        refused("LengthError", "502 new tokens", lengths=[503], **dict(zip(("q", "k", "v", "qg", "kg"), many)))
        assert isinstance(raised(engine.truncate, a, 11), starter.LengthError)
        assert isinstance(raised(engine.prefill, [a], *x, [10]), starter.DtypeError)  # no out beside numpy
        assert engine.memory() == before and engine.length(a) == 10

        other = starter.build_engine(config)
        batch = draw(config, 1, 10)
        _, saved = other.forward(*batch, out=poisoned(batch[0].shape))
        outs = tuple(poisoned(each.shape) for each in batch)
        assert isinstance(raised(engine.backward, saved, batch[0], out=outs), starter.DeviceError)
    engine.close()
    for call in (engine.create, engine.memory, lambda: engine.length(a), lambda: engine.forward(*batch)):
        assert isinstance(raised(call), starter.DeviceError)


@check
def configurations_are_checked():
    for changes, text in (
        ({"head_dims": 64}, "head_dims: unknown key"),
        ({"q_heads": 3}, "q_heads: expected a multiple of kv_heads, 2, got 3"),
        ({"gate_dim": 0}, "gate_dim: expected an integer from 1, got 0"),
        ({"head_dim": "64"}, "head_dim: expected an integer from 1, got '64'"),
        ({"dtype": "float32"}, "dtype: expected"),
        ({"modes": ["training", "training"]}, "modes: expected"),
        ({"batch_invariant": 1}, "batch_invariant: expected true or false"),
        ({"memory_limit_bytes": 1000}, "memory_limit_bytes: expected at least"),
    ):
        error = raised(starter.build_engine, settings(**changes))
        assert isinstance(error, starter.ConfigError) and text in str(error), repr(error)
        assert error.argument == next(iter(changes))
    config = settings()
    del config["max_seq_len"]
    assert "max_seq_len: missing, and the modes prefill" in str(raised(starter.build_engine, config))
    with starter.build_engine({**config, "modes": ["training"]}) as engine:
        assert isinstance(raised(engine.create), starter.ConfigError)

    config = settings(memory_limit_bytes=1)
    needed = int(str(raised(starter.build_engine, config)).split("at least ")[1].split(" bytes")[0])
    assert isinstance(raised(starter.build_engine, {**config, "memory_limit_bytes": needed - 1}), starter.ConfigError)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({**config, "memory_limit_bytes": needed}, file)
        file.flush()
        with starter.build_engine(file.name) as engine:
            model = Model(engine, config)
            model.append("prefill", [model.create()], [config["max_seq_len"]])
            assert engine.memory()["bytes_peak"] <= needed


# ---- Memory


@check
def cache_counts_unique_tokens():
    """Random calls against a model that names every token; a prefix of names is a shared prefix of tokens."""
    chance = random.Random(7)
    config = settings(head_dim=16, gate_dim=8, kv_heads=1, q_heads=1, max_cached_tokens=400, max_sequences=6)
    config["modes"] = ["prefill"]
    made = 0
    with starter.build_engine(config) as engine:
        names: dict[int, list[int]] = {}
        for _ in range(1500):
            action = chance.choice(("create", "fork", "release", "truncate", "append", "append"))
            some = chance.choice(sorted(names)) if names else None
            if action == "create" and len(names) < 6:
                names[engine.create()] = []
            elif some is None:
                continue
            elif action == "fork" and len(names) < 6:
                names[engine.fork(some)] = names[some][:]
            elif action == "release":
                engine.release(some)
                del names[some]
            elif action == "truncate":
                kept = chance.randint(0, len(names[some]))
                engine.truncate(some, kept)
                names[some] = names[some][:kept]
            elif action == "append":
                added, free = chance.randint(0, 90), 400 - len(set().union(*names.values()))
                x = draw(config, added)
                append = functools.partial(engine.prefill, [some], *x, [added], out=poisoned(x[0].shape))
                if added > free:
                    assert f"needed {added} tokens, {free} free" in str(raised(append))
                else:
                    append()
                    names[some] += range(made, made := made + added)
            unique = [token for each in names.values() for token in each]
            memory = engine.memory()
            assert memory["pages_used"] == len(set(unique)) == 400 - memory["pages_free"]
            assert memory["pages_shared"] == len({token for token in unique if unique.count(token) > 1})
            assert memory["sequences"] == len(names)
            assert memory["bytes_held"] >= memory["pages_used"] * 80
            assert all(engine.length(id) == len(tokens) for id, tokens in names.items())
        for id in names:
            engine.release(id)
        assert engine.memory()["pages_used"] == engine.memory()["bytes_held"] == 0


@check
def memory_stays_under_the_account():
    """The bytes of all tensors alive, the caller's aside, against what the engine reckons and against its limit."""
    config = settings(max_cached_tokens=3000, max_seq_len=3000, memory_limit_bytes=3000 * 2 * 160 * 2 + 4 * MIB)
    with starter.build_engine(config) as engine:
        inputs = draw(config, 2500)
        out, a = poisoned(inputs[0].shape), engine.create()
        with Alive() as alive:
            engine.prefill([a], *inputs, [2500], out=out)
        reckoned = engine.memory()["bytes_peak"]
        assert engine._memory.step("serving", 2500, 2500).queries > 1
        assert reckoned / 2 < alive.peak <= reckoned <= config["memory_limit_bytes"], (alive.peak, reckoned)
    config = settings(modes=["training"], memory_limit_bytes=5 * MIB)
    with starter.build_engine(config) as engine:
        inputs = draw(config, 1, 600)
        outputs = poisoned(inputs[0].shape), tuple(poisoned(each.shape) for each in inputs)
        with Alive() as alive:
            _, saved = engine.forward(*inputs, out=outputs[0])
            engine.backward(saved, inputs[0], out=outputs[1])
        reckoned = engine.memory()["bytes_peak"]
        assert engine._memory.step("backward", 600, 600).queries > 1
        assert reckoned / 2 < alive.peak <= reckoned <= config["memory_limit_bytes"], (alive.peak, reckoned)


# The public strata: D, R, Hq, Hkv; then batch and length of training, or the cache's tokens, the longest sequence and
# the most new tokens of one; and the tier.
TRAINING = (
    (64, 32, 16, 16, 4, 2048, "ample"),
    (64, 64, 32, 8, 2, 4096, "tight"),
    (128, 32, 32, 8, 1, 8192, "ample"),
    (128, 64, 16, 2, 1, 16384, "tight"),
)
SERVING = (
    (64, 32, 32, 8, 8 * 512, 4096, 4096, "ample"),
    (64, 64, 16, 16, 4 * 8192, 8192, 2048, "tight"),
    (128, 32, 16, 2, 16384, 16384, 16384, "ample"),
    (128, 64, 32, 8, 4096 + 15360, 12288, 8192, "tight"),
    (64, 32, 32, 8, 64 * 256, 2048, 1, "ample"),
    (64, 64, 16, 16, 8 * 8192, 16384, 8, "tight"),
    (128, 32, 16, 2, 16384, 16384, 1, "ample"),
    (128, 64, 32, 8, 4096 + 32 * 16, 4224, 1, "tight"),
)


@check
def every_stratum_fits_its_tier():
    """On CUDA, where an engine reckons with cuBLAS' workspace and its allocator's slack; and not in tiny steps."""
    for d, r, q_heads, kv_heads, batch, count, tier in TRAINING:
        step_bytes = 2 * batch * count * (q_heads + kv_heads) * (4 * d + 2 * r)
        limit = step_bytes // 4 + 64 * MIB if tier == "tight" else step_bytes + 256 * MIB
        memory = on_cuda(d, r, q_heads, kv_heads, limit, modes=["training"])
        step = memory.step("backward", count, count)
        assert step.heads * step.queries >= 16, step
    for d, r, q_heads, kv_heads, tokens, longest, count, tier in SERVING:
        cache = tokens * kv_heads * (2 * d + r) * 2
        limit = cache * 21 // 20 + 64 * MIB if tier == "tight" else cache * 5 // 4 + 256 * MIB
        memory = on_cuda(
            d, r, q_heads, kv_heads, limit, modes=["decode"], max_cached_tokens=tokens, max_seq_len=longest
        )
        step = memory.step("serving", count, longest)
        assert step.heads * step.queries >= min(16, 2 * count), step


def on_cuda(d: int, r: int, q_heads: int, kv_heads: int, limit: int, **changes):
    """The account of an engine on a GPU."""
    config = settings(head_dim=d, gate_dim=r, q_heads=q_heads, kv_heads=kv_heads, memory_limit_bytes=limit, **changes)
    config = starter.engine.read_config(config)
    return starter.engine.Memory(dataclasses.replace(config, device=torch.device("cuda", 0)))


def alive_tensors():
    """A context that counts the bytes that torch allocates for tensors; its `peak` is the most alive at one moment."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Alive(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.peak = self.held = 0
            self._tensors: dict[int, weakref.ref] = {}
            self._storages: dict[int, list[int]] = {}  # address to bytes and the tensors on it

        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            result = function(*arguments, **(named or {}))
            given = {each.storage().data_ptr() for each in flat(arguments)}
            for tensor in flat(result):
                self._count(tensor, given)
            self.peak = max(self.peak, self.held)
            return result

        def _count(self, tensor, given: set[int]) -> None:
            address, size = tensor.storage().data_ptr(), tensor.storage().nbytes()
            if id(tensor) in self._tensors or size == 0:
                return
            if address not in self._storages:
                if address in given:
                    return  # a view of the caller's
                self._storages[address] = [size, 0]
                self.held += size
            self._storages[address][1] += 1
            key = id(tensor)
            self._tensors[key] = weakref.ref(tensor, lambda _: self._forget(key, address))

        def _forget(self, key: int, address: int) -> None:
            del self._tensors[key]
            storage = self._storages[address]
            storage[1] -= 1
            if storage[1] == 0:
                del self._storages[address]
                self.held -= storage[0]

    def flat(values) -> list:
        if isinstance(values, torch.Tensor):
            return [values]
        return [each for value in values for each in flat(value)] if isinstance(values, (list, tuple)) else []

    return Alive()


def main() -> None:
    """Runs every check; prints each one's traceback, or "", as JSON."""
    results = {}
    for name, function in CHECKS.items():
        try:
            function()
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    import torch

    from tools.reference import accuracy
    from tools.reference import attention as reference
    from tools.reference.bits import from_bits, to_bits

    Alive = alive_tensors
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tools/grade/starter", Path(folder, "renamed"))
        sys.path.insert(0, folder)
        starter = importlib.import_module("renamed")
        main()
