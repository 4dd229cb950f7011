"""Stages of a random network on maps, (batch, channels, height, width). Each adds its lines and gives the new shape."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.drawn.writer import Shape, Writer

Stage = Callable[[Writer, Shape], Shape]


def _normalised(w: Writer, channels: int, value: str) -> str:
    """The value behind a normalisation, or as it is."""
    kind = w.choice(("batch", "batch", "group", "instance", "none"))
    if kind == "batch":
        return f"{w.layer(f'nn.BatchNorm2d({channels})')}({value})"
    if kind == "group":
        groups = w.divisor(channels, (2, 4, 8))
        return f"{w.layer(f'nn.GroupNorm({groups}, {channels})')}({value})"
    if kind == "instance":
        return f"{w.layer(f'nn.InstanceNorm2d({channels}, affine=True)')}({value})"
    return value


def _width(w: Writer, shape: Shape, flops: int, *, values: int = 1, multiple: int = 1) -> int:
    """A width for layers that take `flops` for each value of a map and each channel of the result, which has `values`
    for each place."""
    return w.width(
        flops_per_channel=flops * shape.values,
        values_per_channel=values * shape.values // shape.dims[0],
        multiple=multiple,
    )


def convolution(w: Writer, shape: Shape) -> Shape:
    channels, height, width = shape.dims
    kernel = w.choice([k for k in (1, 3, 3, 5, 7) if k <= min(height, width)])
    dilation = w.choice((1, 1, 1, 2)) if kernel == 3 and min(height, width) > 4 else 1
    stride = w.choice((1, 1, 2)) if min(height, width) >= 6 else 1
    padding = dilation * (kernel - 1) // 2
    height, width = (height - 1) // stride + 1, (width - 1) // stride + 1
    groups = w.divisor(channels, (1, 1, 1, 2, 4))
    strided = Shape((channels // groups, height, width))
    out = _width(w, strided, 2 * kernel**2, multiple=groups)
    bias = w.choice((True, False))
    layer = w.layer(
        f"nn.Conv2d({channels}, {out}, {kernel}, stride={stride}, padding={padding}, dilation={dilation}, "
        f"groups={groups}, bias={bias})"
    )
    w.step(f"x = {w.activation(_normalised(w, out, f'{layer}(x)'))}")
    return Shape((out, height, width))


def separable(w: Writer, shape: Shape) -> Shape:
    """A depthwise convolution, often on what a stride leaves, and a pointwise one."""
    channels, height, width = shape.dims
    kernel = w.choice((3, 5))
    stride = w.choice((1, 2)) if min(height, width) >= 6 else 1
    depthwise = w.layer(
        f"nn.Conv2d({channels}, {channels}, {kernel}, stride={stride}, padding={kernel // 2}, groups={channels})"
    )
    height, width = (height - 1) // stride + 1, (width - 1) // stride + 1
    out = _width(w, Shape((channels, height, width)), 2)
    pointwise = w.layer(f"nn.Conv2d({channels}, {out}, 1)")
    w.step(f"x = {w.activation(_normalised(w, channels, f'{depthwise}(x)'))}")
    w.step(f"x = {_normalised(w, out, f'{pointwise}(x)')}")
    return Shape((out, height, width))


def gate(w: Writer, shape: Shape) -> Shape:
    """One half of the channels gates the other."""
    channels, height, width = shape.dims
    if channels % 2:
        return convolution(w, shape)
    half = channels // 2
    first, second = f"x[:, :{half}]", f"x[:, {half}:]"
    w.step(f"x = {w.activation(first)} * {w.choice(('torch.sigmoid', 'torch.tanh', 'F.softplus'))}({second})")
    return Shape((half, height, width))


def shuffle(w: Writer, shape: Shape) -> Shape:
    """Channels to pixels, or pixels to channels."""
    channels, height, width = shape.dims
    if channels % 4 == 0 and w.choice((True, False)):
        w.step("x = F.pixel_shuffle(x, 2)")
        return Shape((channels // 4, height * 2, width * 2))
    if height % 2 == 0 and width % 2 == 0 and min(height, width) >= 8:
        w.step("x = F.pixel_unshuffle(x, 2)")
        return Shape((channels * 4, height // 2, width // 2))
    return pooling(w, shape)


def pooling(w: Writer, shape: Shape) -> Shape:
    channels, height, width = shape.dims
    if min(height, width) < 4:
        return convolution(w, shape)
    kernel, stride = w.choice(((2, 2), (3, 2), (3, 1)))
    kind = w.choice(("F.max_pool2d", "F.avg_pool2d"))
    w.step(f"x = {kind}(x, {kernel}, stride={stride}, padding={kernel // 2 if kernel == 3 else 0})")
    if kernel == 3:
        return Shape((channels, (height - 1) // stride + 1, (width - 1) // stride + 1))
    return Shape((channels, height // 2, width // 2))


def resize(w: Writer, shape: Shape) -> Shape:
    channels, height, width = shape.dims
    if shape.values * 4 > w.sizes.most_values:
        return pooling(w, shape)
    if w.choice((True, False)):
        mode = w.choice(("'nearest'", "'bilinear', align_corners=False"))
        w.step(f"x = F.interpolate(x, scale_factor=2, mode={mode})")
        return Shape((channels, 2 * height, 2 * width))
    out = _width(w, shape, 8, values=4)
    w.step(f"x = {w.activation(w.layer(f'nn.ConvTranspose2d({channels}, {out}, 2, stride=2)') + '(x)')}")
    return Shape((out, 2 * height, 2 * width))


def residual(w: Writer, shape: Shape) -> Shape:
    channels = shape.dims[0]
    inner = _width(w, shape, 22)
    first = w.layer(f"nn.Conv2d({channels}, {inner}, 1)")
    second = w.layer(f"nn.Conv2d({inner}, {channels}, 3, padding=1)")
    name = w.name()
    w.step(f"{name} = {w.activation(_normalised(w, inner, f'{first}(x)'))}")
    w.step(f"x = x + {w.choice(('', '0.5 * '))}{_normalised(w, channels, f'{second}({name})')}")
    return shape


def branches(w: Writer, shape: Shape) -> Shape:
    """Convolutions of several kernels side by side, and a pool; their results are concatenated."""
    channels, height, width = shape.dims
    names, total = [], 0
    for kernel in w.random.sample((1, 3, 5), w.choice((2, 3))):
        out = _width(w, shape, 8 * kernel**2, values=4)
        layer = w.layer(f"nn.Conv2d({channels}, {out}, {kernel}, padding={kernel // 2})")
        names.append(w.name())
        w.step(f"{names[-1]} = {w.activation(f'{layer}(x)')}")
        total += out
    if w.choice((True, False)):
        names.append("F.max_pool2d(x, 3, stride=1, padding=1)")
        total += channels
    w.step(f"x = torch.cat([{', '.join(names)}], 1)")
    return Shape((total, height, width))


def squeeze(w: Writer, shape: Shape) -> Shape:
    """Channels are scaled by what a small network makes of their means or maxima."""
    channels = shape.dims[0]
    inner = max(channels // w.choice((2, 4, 8)), 2)
    first, second = w.there_and_back(channels, inner)
    reduced = w.choice(("x.mean((2, 3))", "x.amax((2, 3))", "x.flatten(2).max(2).values", "x.std((2, 3))"))
    name = w.name()
    w.step(f"{name} = {second}({w.activation(f'{first}({reduced})')})")
    w.step(f"x = x * torch.sigmoid({name})[:, :, None, None]")
    return shape


def places(w: Writer, shape: Shape) -> Shape:
    """Places are scaled by what a convolution makes of the channels' maximum and mean."""
    kernel = w.choice((3, 5, 7))
    layer = w.layer(f"nn.Conv2d(2, 1, {kernel}, padding={kernel // 2})")
    name = w.name()
    w.step(f"{name} = torch.cat([x.max(1, keepdim=True).values, x.mean(1, keepdim=True)], 1)")
    w.step(f"x = x * torch.sigmoid({layer}({name}))")
    return shape


def channels_last(w: Writer, shape: Shape) -> Shape:
    """Dense layers over the channels of a permuted map."""
    channels = shape.dims[0]
    inner = _width(w, shape, 4)
    norm = w.layer(f"nn.LayerNorm({channels})")
    first, second = w.there_and_back(channels, inner)
    name = w.name()
    w.step(f"{name} = {second}({w.activation(f'{first}({norm}(x.permute(0, 2, 3, 1)))')})")
    w.step(f"x = x + {name}.permute(0, 3, 1, 2)")
    return shape


def attention(w: Writer, shape: Shape) -> Shape:
    """Every place attends to all."""
    channels, height, width = shape.dims
    heads = w.divisor(channels, (1, 2, 4, 8))
    if (height * width) ** 2 * heads > w.sizes.most_values * 8:
        return pooling(w, shape)
    layer = w.layer(f"nn.Conv2d({channels}, {3 * channels}, 1)")
    name = w.name()
    w.step(f"{name} = {layer}(x).view(-1, 3, {heads}, {channels // heads}, {height * width}).transpose(3, 4)")
    w.step(f"{name} = F.scaled_dot_product_attention({name}[:, 0], {name}[:, 1], {name}[:, 2])")
    w.step(f"x = x + {name}.transpose(2, 3).reshape(-1, {channels}, {height}, {width})")
    return shape


def rearranged(w: Writer, shape: Shape) -> Shape:
    _, height, width = shape.dims
    w.step(
        w.choice(
            (
                f"x = torch.roll(x, ({w.random.randint(1, height - 1)}, {w.random.randint(1, width - 1)}), (2, 3))",
                "x = x.flip(3)",
                "x = F.pad(x, (1, 1, 1, 1), mode='reflect')[:, :, 1:-1, 1:-1]",
                f"x = {w.activation('x.transpose(2, 3)')}.transpose(2, 3)",
            )
        )
    )
    return shape


MAP_STAGES: tuple[Stage, ...] = (
    convolution, convolution, convolution, separable, separable, gate, shuffle, pooling, resize, residual, branches,
    squeeze, places, channels_last, attention, rearranged,
)  # fmt: skip
