"""Stages of a random network on sequences, (batch, length, width), and on vectors, (batch, width)."""

from __future__ import annotations

from benchmarks.drawn.map_stages import Stage
from benchmarks.drawn.writer import Shape, Writer


def _normalised(w: Writer, width: int, value: str) -> str:
    kind = w.choice((f"nn.LayerNorm({width})", f"nn.RMSNorm({width})", ""))
    return f"{w.layer(kind)}({value})" if kind else value


def _width(w: Writer, shape: Shape, multiple: int = 1) -> int:
    """A width for a dense layer on `x`."""
    length = shape.values // shape.dims[-1]
    return w.width(flops_per_channel=2 * shape.values, values_per_channel=length, multiple=multiple)


def dense(w: Writer, shape: Shape) -> Shape:
    out = _width(w, shape)
    layer = w.layer(f"nn.Linear({shape.dims[-1]}, {out}, bias={w.choice((True, False))})")
    w.step(f"x = {w.activation(_normalised(w, out, f'{layer}(x)'))}")
    return Shape((*shape.dims[:-1], out))


def residual(w: Writer, shape: Shape) -> Shape:
    width, inner = shape.dims[-1], _width(w, shape)
    first, second = w.there_and_back(width, inner)
    normal = _normalised(w, width, "x")
    w.step(f"x = x + {second}({w.activation(f'{first}({normal})')})")
    return shape


def gate(w: Writer, shape: Shape) -> Shape:
    """One half of a dense layer's results gates the other."""
    half = _width(w, shape)
    name = w.name()
    w.step(f"{name} = {w.layer(f'nn.Linear({shape.dims[-1]}, {2 * half})')}(x)")
    first, second = f"{name}[..., :{half}]", f"{name}[..., {half}:]"
    w.step(f"x = {w.activation(first)} * {w.choice(('torch.sigmoid', 'torch.tanh'))}({second})")
    return Shape((*shape.dims[:-1], half))


def attention(w: Writer, shape: Shape) -> Shape:
    """By torch's own function, or written out."""
    length, width = shape.dims
    heads = w.divisor(width, (1, 2, 4, 8))
    layer, last = w.layer(f"nn.Linear({width}, {3 * width})"), w.layer(f"nn.Linear({width}, {width})")
    name = w.name()
    w.step(f"{name} = {layer}({_normalised(w, width, 'x')}).view(-1, {length}, 3, {heads}, {width // heads})")
    w.step(f"{name} = {name}.permute(2, 0, 3, 1, 4)")
    if w.choice((True, False)):
        causal = w.choice((True, False))
        w.step(f"{name} = F.scaled_dot_product_attention({name}[0], {name}[1], {name}[2], is_causal={causal})")
    else:
        w.step(
            f"{name} = torch.softmax({name}[0] @ {name}[1].transpose(2, 3) / {(width // heads) ** 0.5:.3f}, 3) "
            f"@ {name}[2]"
        )
    w.step(f"x = x + {last}({name}.transpose(1, 2).reshape(-1, {length}, {width}))")
    return shape


def recurrent(w: Writer, shape: Shape) -> Shape:
    length, width = shape.dims
    both = w.choice((True, False))
    hidden = w.width(flops_per_channel=16 * width * length, values_per_channel=length)
    kind = w.choice(("LSTM", "GRU", "RNN"))
    layer = w.layer(f"nn.{kind}({width}, {hidden}, batch_first=True, bidirectional={both})")
    w.step(f"x = {layer}(x)[0]")
    return Shape((length, hidden * (2 if both else 1)))


def own_cell(w: Writer, shape: Shape) -> Shape:
    """A recurrent cell of a few operators, called step by step."""
    length, width = shape.dims
    if length > 64:
        return merge(w, shape)
    hidden = w.width(flops_per_channel=4 * width * length, values_per_channel=length)
    inward, again = w.layer(f"nn.Linear({width}, {hidden})"), w.layer(f"nn.Linear({hidden}, {hidden})")
    name, states = w.name(), f"states{len(w.steps)}"
    w.step(f"{name}, {states} = x.new_zeros(x.shape[0], {hidden}), []")
    w.step(f"for t in range({length}):")
    kept = w.choice(("", f"0.5 * {name} + "))
    w.step(f"    {name} = {kept}{w.activation(f'{inward}(x[:, t]) + {again}({name})')}")
    w.step(f"    {states}.append({name})")
    w.step(f"x = torch.stack({states}, 1)")
    return Shape((length, hidden))


def convolution(w: Writer, shape: Shape) -> Shape:
    """Over the length, on the transposed sequence."""
    length, width = shape.dims
    kernel = w.choice([k for k in (3, 5, 7) if k <= length])
    stride = w.choice((1, 1, 2)) if length >= 12 else 1
    groups = w.choice((1, 1, width))
    length = (length - 1) // stride + 1
    out = width if groups > 1 else w.width(flops_per_channel=2 * width * kernel * length, values_per_channel=length)
    layer = w.layer(f"nn.Conv1d({width}, {out}, {kernel}, stride={stride}, padding={kernel // 2}, groups={groups})")
    w.step(f"x = {w.activation(f'{layer}(x.transpose(1, 2))')}.transpose(1, 2)")
    return Shape((length, out))


def mix_places(w: Writer, shape: Shape) -> Shape:
    """Dense layers over the length."""
    length, width = shape.dims
    inner = w.width(flops_per_channel=4 * length * width, values_per_channel=width)
    first, second = w.there_and_back(length, inner)
    w.step(f"x = x + {second}({w.activation(f'{first}(x.transpose(1, 2))')}).transpose(1, 2)")
    return shape


def similarity(w: Writer, shape: Shape) -> Shape:
    """Every place is replaced by a sum of all, weighted by their likeness."""
    w.step(f"x = x + torch.softmax(x @ x.transpose(1, 2) / {shape.dims[1]}, 2) @ x")
    return shape


def merge(w: Writer, shape: Shape) -> Shape:
    """Neighbours become one place."""
    length, width = shape.dims
    if length % 2 or length < 8:
        return dense(w, shape)
    if w.choice((True, False)):
        w.step(f"x = x.reshape(-1, {length // 2}, {2 * width})")
        return dense(w, Shape((length // 2, 2 * width)))
    w.step(f"x = {w.choice(('x[:, ::2] + x[:, 1::2]', 'torch.maximum(x[:, ::2], x[:, 1::2])'))}")
    return Shape((length // 2, width))


def along(w: Writer, shape: Shape) -> Shape:
    """What runs along the length."""
    length, _ = shape.dims
    w.step(
        w.choice(
            (
                f"x = torch.cumsum(x, 1) / {length}",
                "x = x * torch.softmax(x, 1)",
                f"x = x + torch.roll(x, {w.random.randint(1, length - 1)}, 1)",
                "x = torch.cat([x[:, :1], x[:, 1:] - x[:, :-1]], 1)",
                "x = x - x.mean(1, keepdim=True)",
                "x = x / (1 + x.abs().amax(2, keepdim=True))",
            )
        )
    )
    return shape


def cross(w: Writer, shape: Shape) -> Shape:
    """Products of all pairs of features."""
    (width,) = shape.dims
    if width > 160:
        return gate(w, shape)
    w.step("x = (x[:, :, None] * x[:, None, :]).flatten(1)" if width <= 32 else "x = x * x.roll(1, 1)")
    return Shape((width * width if width <= 32 else width,))


def grouped(w: Writer, shape: Shape) -> Shape:
    """A matrix for each group of features."""
    (width,) = shape.dims
    groups = w.divisor(width, (2, 4, 8))
    out = w.width(flops_per_channel=2 * width)
    weights = w.layer(f"nn.Parameter(torch.randn({groups}, {width // groups}, {out}) / {width // groups})")
    w.step(f"x = torch.einsum('bgi,gio->bgo', x.view(-1, {groups}, {width // groups}), {weights})")
    w.step(f"x = {w.activation()}.flatten(1)")
    return dense(w, Shape((groups * out,)))


def normalised(w: Writer, shape: Shape) -> Shape:
    (width,) = shape.dims
    layer = w.layer(w.choice((f"nn.BatchNorm1d({width})", f"nn.LayerNorm({width})")))
    w.step(f"x = {w.activation(f'{layer}(x)')}")
    return shape


def to_vector(w: Writer, shape: Shape) -> Shape:
    """The end of maps and sequences."""
    if shape.kind == "map":
        w.step(f"x = {w.choice(('x.mean((2, 3))', 'x.amax((2, 3))', 'F.adaptive_avg_pool2d(x, 1).flatten(1)'))}")
        return Shape((shape.dims[0],))
    w.step(f"x = {w.choice(('x.mean(1)', 'x.max(1).values', 'x[:, -1]', 'torch.logsumexp(x, 1)'))}")
    return Shape((shape.dims[1],))


def to_sequence(w: Writer, shape: Shape) -> Shape:
    """A map's places, one after the other."""
    channels, height, width = shape.dims
    w.step("x = x.flatten(2).transpose(1, 2)")
    return Shape((height * width, channels))


SEQUENCE_STAGES: tuple[Stage, ...] = (
    dense, residual, residual, gate, attention, attention, recurrent, own_cell, convolution, mix_places, similarity,
    merge, along,
)  # fmt: skip
VECTOR_STAGES: tuple[Stage, ...] = (dense, dense, residual, gate, cross, grouped, normalised)
