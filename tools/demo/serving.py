"""The serving half of the demo: ragged prompts, a fork, decode steps of one to three tokens."""

from __future__ import annotations

import numpy as np

from tools.reference.accuracy import Verdict, floors, judge
from tools.reference.attention import Inputs, eager, forward
from tools.reference.bits import from_bits, rounded, to_bits

from .device_memory import Device


class Serving:
    """Drives an engine's cache and keeps on the host what each sequence holds, to check every output."""

    def __init__(self, engine, config: dict, device: Device, rng: np.random.Generator):
        self.engine, self.config, self.device, self.rng = engine, config, device, rng
        self.dtype = config["dtype"]
        self.cached: dict[int, list[np.ndarray]] = {}  # id → k, v, kg as float32 values, [tokens, Hkv, dim]

    def create(self) -> int:
        """An empty sequence."""
        nothing = [self._values(0, "kv_heads", dim) for dim in ("head_dim", "head_dim", "gate_dim")]
        return self._remember(self.engine.create(), nothing)

    def fork(self, parent: int) -> int:
        """A sequence that continues from the parent's tokens."""
        return self._remember(self.engine.fork(parent), list(self.cached[parent]))

    def step(self, call: str, name: str, ids: list[int], lengths: list[int]) -> Verdict:
        """Appends random tokens by `call`, "prefill" or "decode", and judges the outputs of all of them."""
        total = sum(lengths)
        heads = {"q": "q_heads", "k": "kv_heads", "v": "kv_heads", "qg": "q_heads", "kg": "kv_heads"}
        new = {
            each: self._values(total, count, "gate_dim" if each.endswith("g") else "head_dim")
            for each, count in heads.items()
        }
        out = self.device.empty(new["q"].shape)
        arrays = [self.device.upload(to_bits(each, self.dtype)) for each in new.values()]
        getattr(self.engine, call)(ids, *arrays, lengths, out=out)

        reference, yardstick, floor = [], [], 0.0
        ends = np.cumsum(lengths)
        for sequence, start, end in zip(ids, ends - lengths, ends):
            held = self.cached[sequence] = [
                np.concatenate([old, new[each][start:end]])
                for old, each in zip(self.cached[sequence], ("k", "v", "kg"))
            ]
            row = Inputs(new["q"][start:end], held[0], held[1], new["qg"][start:end], held[2])
            reference.append(forward(row))
            yardstick.append(forward(row, eager(self.dtype)))
            floor = max(floor, floors(self.dtype, row)["o"])
        result = from_bits(out.numpy(), self.dtype)
        return judge(name, result, np.concatenate(yardstick), np.concatenate(reference), floor)

    def _remember(self, sequence: int, held: list[np.ndarray]) -> int:
        self.cached[sequence] = held
        return sequence

    def _values(self, tokens: int, heads: str, dim: str) -> np.ndarray:
        """Random values that the engine's dtype holds exactly, [tokens, heads, dim] in float32."""
        values = self.rng.standard_normal((tokens, self.config[heads], self.config[dim]))
        return rounded(values, self.dtype)


def serve(engine, config: dict, device: Device, rng: np.random.Generator) -> list[Verdict]:
    """Two prompts, more of the first one, a fork of it, decode of all three; one verdict a call."""
    serving = Serving(engine, config, device, rng)
    a, b = serving.create(), serving.create()
    verdicts = [serving.step("prefill", "prefill, two prompts", [a, b], [150, 37])]
    verdicts.append(serving.step("prefill", "prefill, next chunk", [a], [83]))
    c = serving.fork(a)
    for lengths in ([1, 1, 1], [2, 1, 3]):
        verdicts.append(serving.step("decode", f"decode, {lengths} tokens", [a, b, c], lengths))
    return verdicts
