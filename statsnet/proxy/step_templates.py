"""The parts of network.py that make one step: inputs, the working dtype, the backward pass, optimizers."""

from string import Template

BATCHES = '''\
def channels_last(proxy: Proxy) -> bool:
    """Whether convolutions read and write channels last: because their weights were set so, or because
    torch.compile makes them do so for any input. Compile first, then make the step."""
    convolutions = [m for m in proxy.modules() if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d))]
    if not all(m.weight.is_contiguous() for m in convolutions):
        return True
    compiled = "_orig_mod" in proxy._modules or proxy._compiled_call_impl is not None
    return compiled and bool(convolutions)


def batches(proxy: Proxy, device: str, count: int = 8) -> list[list[Tensor]]:
    """Inputs of each tower for `count` steps in turn, so that no cache holds them from the last step. If
    convolutions are channels last, so are input maps, as earlier layers would have written them."""
    generator = torch.Generator().manual_seed(SEED + 1)  # other numbers than the weights'
    if channels_last(proxy):
        for block in proxy.modules():
            if isinstance(block, Block):
                block.read_channels_last()
    heads = [tower[0] for tower in proxy.towers]
    lasts = [getattr(head, "last", False) for head in heads]
    layouts = [torch.channels_last if last else torch.preserve_format for last in lasts]
    places = places_in_memory(heads, count)
    given = [
        [x.to(device, memory_format=f) for x in samples(head, count, places, generator)]
        for head, f in zip(heads, layouts, strict=True)
    ]
    return [[inputs[i % len(inputs)] for inputs in given] for i in range(count)]
'''

SAMPLE = Template('''\
def samples(head: $head, count: int, places: int, generator: torch.Generator) -> list[Tensor]:
    """Activations for a tower's first block, in so many places in memory$others."""
$cases    x = numbers(*head.shape, generator=generator)
    x = (0.8 * x.sign() + 0.25 * x).to(DTYPE)
    return [x.clone() for _ in range(places)]


def places_in_memory(heads: list[nn.Module], count: int) -> int:
    """How many copies of all towers' activations, `count` at most, are more than a cache holds."""
    read = sum(head.shape.numel() * DTYPE.itemsize for head in heads if isinstance(head, Block))
$of_operators    return min(count, max(2, 2**29 // max(1, read)))
''')

SAMPLE_OF_OPERATOR = """\
    if isinstance(head, Operator):
        return head.samples(places)
"""

READ_BY_OPERATORS = """\
    read += sum(spread(head.operands[0]).nbytes for head in heads if isinstance(head, Operator))
"""

SAMPLE_OF_INDICES = """\
    if not isinstance(head, Block):
        first = torch.randint(head.rows, (), generator=generator)  # each block's frequent rows are others
        drawn = [zipf_indices(head.indices, head.rows, head.skew, generator) for _ in range(count)]
        return [(indices + first) % head.rows for indices in drawn]
"""

WORKING_DTYPE = Template('''\
def working_dtype(device: str) -> torch.dtype:
    """The dtype that layers hand on to each other: autocast's if it is on."""
    kind = device.partition(":")[0]
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else DTYPE


def handed_on(proxy: Proxy, given: list[list[Tensor]], dtype: torch.dtype) -> list[list[Tensor]]:
    """Inputs of towers and side inputs of blocks, in the dtype in which earlier layers would hand them on."""
    for place, tower in enumerate(proxy.towers):
        for name, branch in itertools.chain(tower.named_parameters(), tower.named_buffers()):
            if name.rpartition(".")[2].rstrip("0123456789") in SIDE_INPUTS and place not in KEPT:
                branch.data = branch.data.to(dtype)
    activations = [place for place, x in enumerate(given[0]) if x.is_floating_point() and place not in KEPT]
    distinct = {id(batch[place]): batch[place] for batch in given for place in activations}
    converted = {key: x.to(dtype) for key, x in distinct.items()}
    handed = [[converted.get(id(x), x) for x in batch] for batch in given]
$operators    return handed
''')

HANDED_TO_OPERATORS = """\
    for place, tower in enumerate(proxy.towers):
        operator = tower[0]
        if isinstance(operator, Operator):
            if place in KEPT or not operator.to(dtype).runs():
                operator.to(DTYPE)
                if not operator.runs():
                    operator.leave_autocast()
            inputs = operator.samples(len({id(batch[place]) for batch in given}))
            for batch, x in zip(handed, itertools.cycle(inputs)):
                batch[place] = x
"""

INFERENCE_STEP = '''\
def make_step(proxy: Proxy, device: str = "cpu") -> Callable[[], list[Tensor]]:
    """One inference step, without gradients."""
    given = batches(proxy, device)
    dtype, rotation = DTYPE, itertools.cycle(given)

    def step() -> list[Tensor]:
        nonlocal dtype, rotation
        if dtype != working_dtype(device):
            dtype = working_dtype(device)
            rotation = itertools.cycle(handed_on(proxy, given, dtype))
        with torch.no_grad():
            return proxy(next(rotation))

    return step
'''

GRADIENTS = '''\
def backward(
    weights: list[nn.Parameter], batch: list[Tensor], outputs: list[Tensor], gradients: list[Tensor]
) -> None:
    """Gradients of all parameters and of all input activations, which a model would hand back."""
    heads = [x for x in batch if x.requires_grad]
    computed = torch.autograd.grad(outputs, heads + weights, gradients)
    for weight, gradient in zip(weights, computed[len(heads) :], strict=True):
        weight.grad = gradient


def gradients_like(outputs: list[Tensor]) -> list[Tensor]:
    """A fixed random gradient for each tower's output, in place of later layers' gradients."""
    return [torch.randn_like(y) / y.numel() ** 0.5 for y in outputs]
'''

LAID_OUT_GRADIENTS = Template('''\
$laid_out

def laid_out_gradients(proxy: Proxy, gradients: list[Tensor]) -> list[Tensor]:
    """The gradients of all towers' outputs, each as its last block asks for."""
    return [laid_out(g, tower[-1]) for tower, g in zip($towers, gradients, strict=True)]
''')

WITHOUT_OPERATORS = '''\
def have_backward(proxy: Proxy) -> tuple[bool, ...]:
    """For each tower whether it has a backward pass. One that is an operator by itself has none: a model's backward
    operators are among them."""
    return tuple(not isinstance(tower[0], Operator) for tower in proxy.towers)


def without_operators(differentiated: tuple[bool, ...], of_towers: Iterable[Any]) -> list[Any]:
    """Without those of towers that have no backward pass."""
    return list(itertools.compress(of_towers, differentiated))
'''

TRAINING_STEP = Template('''\
def make_step(proxy: Proxy, device: str = "cpu") -> Callable[[], list[Tensor]]:
    """One training step: $what"""
    given = batches(proxy, device)
    dtype, rotation = DTYPE, itertools.cycle(given)
$differentiated    gradients = $gradients
    weights = list(proxy.parameters())
$begin$optimizers
    def step() -> list[Tensor]:
        nonlocal dtype, rotation, gradients
        if dtype != working_dtype(device):
            dtype = working_dtype(device)
            rotation = itertools.cycle(handed_on(proxy, given, dtype))
            gradients = $gradients
        for weight in weights:
            weight.grad = None
$backward$update        return outputs

    return step
''')

BATCH = """\
        batch = [x.detach().requires_grad_(x.is_floating_point()) for x in next(rotation)]
"""

FORWARD = """\
        outputs = proxy(batch)
"""

BACKWARD = """\
        backward(weights, batch, outputs, gradients)
"""

BATCH_WITHOUT_OPERATORS = """\
        batch = [x.detach() for x in next(rotation)]
        for x in without_operators(differentiated, batch):
            x.requires_grad_(x.is_floating_point())
"""

BACKWARD_WITHOUT_OPERATORS = """\
        if gradients:
            backward(weights, batch, without_operators(differentiated, outputs), gradients)
"""

BEGIN = """\
    begin = torch.zeros((), device=device, requires_grad=True)
"""

BACKWARD_WITH_OPERATORS = Template("""\
        ends = [begin, *without_operators(differentiated, outputs)]
        with begin.register_hook(lambda _: run_in_backward(proxy, batch, outputs$exchange)):
            backward(weights, [begin, *batch], ends, [begin, *gradients])
""")

RUN_IN_BACKWARD = Template('''\
def run_in_backward(proxy: Proxy, batch: list[Tensor], outputs: list[Tensor]$parameter) -> None:
    """The operators that models run in their backward pass; their results join the outputs. Autograd calls it before
    all other gradients, so that they run as a model's do: in its thread, without gradients of their own."""
    for i, end in zip(sorted(IN_BACKWARD), proxy(batch, backward=$given), strict=True):
        outputs[i] = end
''')

WITH_OPTIMIZERS = {
    "what": "forward, backward, and the optimizers on the parameters that they own.",
    "optimizers": """\
    optimizers = []
    for name, make in OPTIMIZERS.items():
        blocks = [b for b in proxy.modules() if getattr(b, "optimizer", None) == name]
        optimizers.append(make([p for b in blocks for n, p in b.named_parameters() if n not in SIDE_INPUTS]))
""",
    "update": """\
        for optimizer in optimizers:
            optimizer.step()
""",
}
WITHOUT_OPTIMIZERS = {
    "what": "forward and backward. No block's parameters are updated.",
    "optimizers": "",
    "update": "",
}
"""Fill a TRAINING_STEP."""
