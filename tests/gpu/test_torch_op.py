"""attention(): the differentiable torch op, in eager mode and compiled."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import HEADS, KV_HEADS, build, config, engine, settings_of, submission
from .reference import GRADIENT_NAMES, check_training
from .tensors import DTYPES, Inputs, assert_same_bits, generator, random_array, random_inputs

GROUP = 4
Q_HEADS = GROUP * KV_HEADS
pytestmark = pytest.mark.usefixtures("pack")


def _leaves(head_dim: int, gate_dim: int, dtype: torch.dtype = torch.bfloat16, length: int = 130) -> Inputs:
    inputs = random_inputs((2, length), Q_HEADS, KV_HEADS, head_dim, gate_dim, dtype, generator(length))
    return Inputs(*(x.requires_grad_() for x in inputs))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_same_bits_as_forward_and_backward(head_dim: int, gate_dim: int, dtype: str):
    built = engine(head_dim, gate_dim, GROUP, dtype)
    leaves = _leaves(head_dim, gate_dim, DTYPES[dtype])
    plain = Inputs(*(x.detach() for x in leaves))
    do = random_array(tuple(plain.q.shape), DTYPES[dtype], generator(1))
    o = built.attention(*leaves)
    gradients = torch.autograd.grad(o, leaves, do)
    expected_o, saved = built.forward(*plain)
    assert_same_bits("o", o.detach(), expected_o)
    for name, ours, expected in zip(GRADIENT_NAMES, gradients, built.backward(saved, do)):
        assert_same_bits(name, ours, expected)
    check_training("attention", o.detach(), Inputs(*gradients), plain, do)


def test_sum_backward():
    """sum().backward() gives a do with every stride 0."""
    built, leaves = engine(64, 32, GROUP), _leaves(64, 32)
    built.attention(*leaves).sum().backward()
    _, saved = built.forward(*(x.detach() for x in leaves))
    for leaf, name, expected in zip(leaves, GRADIENT_NAMES, built.backward(saved, torch.ones_like(leaves.q.detach()))):
        assert_same_bits(name, leaf.grad, expected)


def test_transposed_inputs():
    """[B,H,S,dim] arrays transposed to [B,S,H,dim]: values and gradients of the contiguous ones."""
    built, leaves = engine(128, 64, GROUP), _leaves(128, 64)
    do = random_array(tuple(leaves.q.shape), torch.bfloat16, generator(1))
    expected = torch.autograd.grad(built.attention(*leaves), leaves, do)
    views = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in leaves]
    ours = torch.autograd.grad(built.attention(*(x.transpose(1, 2) for x in views)), views, do)
    for name, gradient, right in zip(GRADIENT_NAMES, ours, expected):
        assert_same_bits(name, gradient.transpose(1, 2), right)


def test_some_gradients_unwanted():
    built, leaves = engine(64, 64, GROUP), _leaves(64, 64)
    expected = torch.autograd.grad(built.attention(*leaves).sum(), leaves.v)[0]
    alone = Inputs(*(x.detach().requires_grad_(name == "v") for name, x in leaves._asdict().items()))
    built.attention(*alone).sum().backward()
    assert_same_bits("dv", alone.v.grad, expected)
    assert all(x.grad is None for name, x in alone._asdict().items() if name != "v")
    with torch.no_grad():
        assert not built.attention(*leaves).requires_grad


def test_double_backward_raises():
    built, leaves = engine(64, 32, GROUP), _leaves(64, 32)
    (dq,) = torch.autograd.grad(built.attention(*leaves).sum(), leaves.q, create_graph=True)
    with pytest.raises(RuntimeError):
        dq.sum().backward()


class _Layer(torch.nn.Module):
    """A projection to the five inputs, attention, a projection back."""

    def __init__(self, built, width: int) -> None:
        super().__init__()
        self.built = built
        c = settings_of(built)
        self.heads = [c["q_heads"], c["kv_heads"], c["kv_heads"], c["q_heads"], c["kv_heads"]]
        self.dims = [c["head_dim"]] * 3 + [c["gate_dim"]] * 2
        self.sizes = [h * d for h, d in zip(self.heads, self.dims)]
        self.first = torch.nn.Linear(width, sum(self.sizes))
        self.last = torch.nn.Linear(self.sizes[0], width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.first(x).split(self.sizes, -1)
        inputs = [part.unflatten(-1, (h, d)) for part, h, d in zip(parts, self.heads, self.dims)]
        return x + self.last(self.built.attention(*inputs).flatten(-2))


def _step(model: torch.nn.Module, layer: _Layer, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Loss and gradients of one step."""
    layer.zero_grad()
    loss = model(x).float().square().mean()
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in layer.parameters()]


def test_compiled_model():
    """torch.compile takes a model with attention whole, forward and backward, and gives what eager mode gives."""
    torch.manual_seed(0)
    layer = _Layer(engine(64, 32, GROUP), 128).to("cuda", torch.bfloat16)
    x = random_array((2, 100, 128), torch.bfloat16, generator(1))
    loss, gradients = _step(layer, layer, x)
    compiled_loss, compiled_gradients = _step(torch.compile(layer, fullgraph=True), layer, x)
    torch.testing.assert_close(compiled_loss, loss, rtol=1e-2, atol=0)
    for ours, expected in zip(compiled_gradients, gradients):
        assert (ours - expected).float().norm() < 2e-2 * expected.float().norm()


def _train(model: torch.nn.Module, layer: _Layer, x: torch.Tensor, target: torch.Tensor) -> list[float]:
    """Losses of 60 steps of AdamW from the same start."""
    torch.manual_seed(0)
    for part in (layer.first, layer.last):
        part.reset_parameters()
    optimizer = torch.optim.AdamW(layer.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = (model(x).float() - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_compiled_model_trains():
    """A model learns, under torch.compile as in eager mode, to add the mean of all tokens so far to each token."""
    layer = _Layer(engine(64, 32, GROUP), 64).to("cuda")
    x = torch.randn((8, 100, 64), generator=generator(1), device="cuda")
    target = x + x.cumsum(1) / torch.arange(1, 101, device="cuda")[:, None]
    eager = _train(layer, layer, x, target)
    compiled = _train(torch.compile(layer, fullgraph=True), layer, x, target)
    assert compiled[-1] < compiled[0] / 4
    assert compiled[-1] == pytest.approx(eager[-1], rel=0.25)


def test_closed_engine():
    built = build(config(64, 32, GROUP, modes=["training"]))
    leaves = _leaves(64, 32)
    o = built.attention(*leaves)
    built.close()
    built.close()
    with pytest.raises(submission().DeviceError):
        built.attention(*leaves)
    with pytest.raises(submission().DeviceError):
        o.sum().backward()


def test_opcheck():
    """torch's own checks of the op: schema, fake tensors, autograd, tracing with dynamic shapes."""
    built = engine(64, 32, GROUP)
    op = getattr(torch.ops, f"stratum_{submission().__name__}").attention.default
    torch.library.opcheck(op, (*_leaves(64, 32, length=20), built._handle))
