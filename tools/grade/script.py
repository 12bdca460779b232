"""A trace made ready to run: a place for every array, the data to fill them with, the orders for the engine's
process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.reference.attention import GRADIENTS, Inputs

from .arena import Arena, Layout, View
from .data import Source
from .trace import Call, Trace

OPERANDS = Inputs._fields


@dataclass(frozen=True)
class Step:
    """A call with its arrays. `forward` is the step that a backward goes on from."""

    call: Call
    inputs: dict[str, View]
    outputs: dict[str, View]
    given: bool = True
    forward: Step | None = None

    @property
    def returned_bytes(self) -> int:
        """Bytes of the arrays that the call, or the forward it goes on from, returns rather than fills."""
        own = 0 if self.given else sum(2 * int(np.prod(view.shape)) for view in self.outputs.values())
        return own + (self.forward.returned_bytes if self.forward else 0)


class Script:
    """The steps of a trace in one block of memory."""

    def __init__(self, trace: Trace, memory: str) -> None:
        """memory: "host" or "cuda"; on the host every output is given, whatever the trace says."""
        self.trace, self._memory = trace, memory
        self._layout = Layout()
        self._forwards: dict[str, Step] = {}
        self.setup = [self._step(call) for call in trace.setup]
        self.calls = [self._step(call) for call in trace.calls]

    @property
    def steps(self) -> list[Step]:
        """Set-up and calls."""
        return self.setup + self.calls

    @property
    def elements(self) -> int:
        """Size of the block, in elements."""
        return self._layout.elements

    @property
    def config(self) -> dict:
        """What build_engine gets."""
        return {**self.trace.config, "memory_limit_bytes": self.trace.limit()}

    def shapes(self, lead: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """Shapes of the five inputs for arrays [*lead, heads, dim]."""
        c = self.trace.config
        q, kv, d, r = c["q_heads"], c["kv_heads"], c["head_dim"], c["gate_dim"]
        tails = (q, d), (kv, d), (kv, d), (q, r), (kv, r)
        return {name: (*lead, *tail) for name, tail in zip(OPERANDS, tails)}

    def _step(self, call: Call) -> Step:
        given = call.output == "given" or self._memory == "host"
        if call.call in ("forward", "attention"):
            shapes = self.shapes((call.batch, call.length))
            inputs, outputs = self._inputs(shapes, call.layout), {"o": shapes["q"]}
            if call.call == "attention":
                inputs["do"] = self._layout.array(shapes["q"], call.layout)
                outputs |= dict(zip(GRADIENTS, shapes.values()))
            step = Step(call, inputs, self._outputs(outputs, call.layout), given and call.call == "forward")
            self._forwards[call.name] = step
            return step
        if call.call == "backward":
            forward = self._forwards[call.of]
            shapes = self.shapes((forward.call.batch, forward.call.length))
            inputs = {"do": self._layout.array(shapes["q"], call.layout)}
            outputs = self._outputs(dict(zip(GRADIENTS, shapes.values())), call.layout)
            return Step(call, inputs, outputs, given, forward)
        if call.call in ("prefill", "decode"):
            shapes = self.shapes((sum(call.counts),))
            return Step(call, self._inputs(shapes, call.layout), self._outputs({"o": shapes["q"]}, call.layout), given)
        return Step(call, {}, {})

    def _inputs(self, shapes: dict[str, tuple[int, ...]], layout: str) -> dict[str, View]:
        if layout != "packed":
            return {name: self._layout.array(shape, layout) for name, shape in shapes.items()}
        q, k, v = self._layout.packed([shapes[name] for name in ("q", "k", "v")])
        qg, kg = self._layout.packed([shapes[name] for name in ("qg", "kg")])
        return dict(zip(OPERANDS, (q, k, v, qg, kg)))

    def _outputs(self, shapes: dict[str, tuple[int, ...]], layout: str) -> dict[str, View]:
        layout = "contiguous" if layout == "packed" else layout
        return {name: self._layout.array(shape, layout) for name, shape in shapes.items()}

    def fill(self, arena: Arena, source: Source) -> None:
        """Poisons the block, writes every input, and remembers how everything stands."""
        arena.poison()
        for step in self.steps:
            for name, view in step.inputs.items():
                arena.array(view)[...] = self.values(step, name, source).reshape(view.shape)
        arena.seal()

    def values(self, step: Step, operand: str, source: Source) -> np.ndarray:
        """Raw bits of an input: [rows, heads, dim], a batch's sequences one after the other."""
        call, (*_, heads, dim) = step.call, step.inputs[operand].shape
        scale = call.scale if operand in ("q", "k") else 1.0
        if call.spans:
            parts = [source.rows(s.seed, operand, s.start, (s.count, heads, dim), scale) for s in call.spans]
            return source.xp.concatenate(parts)
        forward = step.forward or step
        return source.rows(call.seed, operand, 0, (forward.call.batch * forward.call.length, heads, dim), scale)

    def place(self, element: int) -> str:
        """What was written, for an element of the block that mustn't be."""
        nearest = 0, "memory before the first array"
        for number, step in enumerate(self.steps):
            for views, what in ((step.inputs, "input"), (step.outputs, "output")):
                for name, view in views.items():
                    if view.contains(element):
                        return f"wrote to {what} {name} of call {number}"
                    if nearest[0] < view.offset <= element:
                        nearest = view.offset, f"memory beside {what} {name} of call {number}"
        return f"wrote to {nearest[1]}"

    def orders(self) -> list:
        """The steps as the engine's process wants them."""
        return [_order(step) for step in self.steps]


def _order(step: Step) -> list:
    call = step.call
    arrays = [{name: view.describe() for name, view in views.items()} for views in (step.inputs, step.outputs)]
    match call.call:
        case "create":
            return ["create", call.name]
        case "fork":
            return ["fork", call.of, call.name]
        case "release":
            return ["release", call.of]
        case "truncate":
            return ["truncate", call.of, call.length]
        case "forward":
            return ["forward", call.name, *arrays, step.given]
        case "backward":
            return ["backward", call.of, *arrays, step.given]
        case "attention":
            return ["attention", *arrays, step.given]
    return ["append", call.call, list(call.sequences), list(call.counts), *arrays, step.given]
