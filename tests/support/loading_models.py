"""Factories of a user's file: every form that works, and what is to be refused."""

MODELS = """
import collections
import torch
from torch import nn

Result = collections.namedtuple("Result", "model args")

class Own:
    def __init__(self, model, args):
        self.model, self.args = model, args

def linear(batch=2, width=3, bias=True, scale=1.0, kind="relu"):
    return nn.Linear(width, 4, bias=bias), torch.ones(batch, width)

def with_kwargs():
    return nn.Bilinear(2, 2, 1), (torch.ones(1, 2),), {"input2": torch.ones(1, 2)}

def as_dict(batch=1):
    inputs = [(torch.ones(batch, n, 3), {}) for n in (4, 8, 8, 8)]
    return {"model": nn.Linear(3, 1), "inputs": inputs, "loss": lambda y: y.mean(), "optimizer": "adam"}

def as_object():
    return Own(nn.Linear(3, 1), (torch.ones(1, 3),))

def as_named_tuple():
    return Result(nn.Linear(3, 1), torch.ones(1, 3))

def bare_inputs():
    return {"model": nn.Linear(3, 1), "inputs": [torch.ones(2, 3), {"input": torch.ones(4, 3)}]}

def own_optimizer():
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
    return {"model": nn.Linear(3, 1), "args": torch.ones(1, 3), "optimizer": sgd}

def numpy_input():
    import numpy
    return nn.Linear(3, 1), torch.from_numpy(numpy.ones((1, 3), dtype="float32"))

def any_keyword(**keywords):
    return nn.Linear(keywords["width"], 1), torch.ones(1, keywords["width"])

def needs_width(width):
    return linear(width=width)

def broken():
    raise ValueError("the weights are gone")

def exits():
    raise SystemExit(3)

def needs_library():
    import transformers_that_is_not_there

def needs_library_inside():
    try:
        import another_that_is_not_there
    except ImportError as error:
        raise ModuleNotFoundError("Could not import module 'Model'. Set the logging verbosity") from error

def needs_known_library():
    raise ModuleNotFoundError("No module named 'transformers'", name="transformers")

def model_only():
    return nn.Linear(3, 1)

def nothing():
    return None

def by_position(width, /):
    return nn.Linear(width, 1), torch.ones(1, width)

def other_names():
    return collections.namedtuple("Pair", "model sample")(nn.Linear(3, 1), torch.ones(1, 3))

def labels():
    data = torch.utils.data.TensorDataset(torch.ones(8, 3), torch.ones(8))
    return nn.Linear(3, 1), torch.utils.data.DataLoader(data, batch_size=4)

def no_model():
    return "model", torch.ones(1)

def a_class():
    return nn.Linear, torch.ones(1, 3)

def a_function():
    return torch.relu, torch.ones(1, 3)

def on_meta():
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1, device="meta")), torch.ones(1, 3)

class Keeps(nn.Linear):
    state = 0.0

    def forward(self, x):
        self.state = torch.tanh(super().forward(x) + self.state)
        return self.state

def keeps_its_graph():
    return Keeps(3, 3), torch.ones(1, 3)

class Hooks(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        if self.training:
            y.register_hook(lambda gradient: 2 * gradient)
        return y

def hooks_its_gradient():
    return Hooks(3, 1), torch.ones(1, 3)

def too_few_steps():
    net = nn.Linear(3, 1)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    return {"model": net, "args": torch.ones(1, 3),
            "optimizer": [sgd, torch.optim.lr_scheduler.OneCycleLR(sgd, 0.1, total_steps=2)]}

@torch.inference_mode()
def without_versions():
    return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), torch.ones(2, 3)

def one_row():
    return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), torch.ones(1, 3)

def unknown_key():
    return {"model": nn.Linear(3, 1), "arguments": torch.ones(1, 3)}

def no_inputs():
    return {"model": nn.Linear(3, 1)}

def both_inputs():
    return {"model": nn.Linear(3, 1), "args": torch.ones(1, 3), "inputs": [torch.ones(1, 3)]}

def empty_inputs():
    return {"model": nn.Linear(3, 1), "inputs": []}

def odd_kwargs():
    return nn.Linear(3, 1), torch.ones(1, 3), 0.5

def labels_third():
    return nn.Linear(3, 1), torch.ones(4, 3), torch.ones(4)

def odd_inputs():
    return {"model": nn.Linear(3, 1), "inputs": [((torch.ones(1, 3), torch.ones(1, 3)), {})]}

def args_as_inputs():
    return {"model": nn.Bilinear(3, 3, 1), "inputs": (torch.ones(1, 3), torch.ones(1, 3))}

class OfOneBatch(nn.Module):
    def forward(self, batch):
        return batch["x"] + batch["y"]

def one_dictionary():
    return OfOneBatch(), {"x": torch.ones(2), "y": torch.ones(2)}

def loader():
    data = torch.utils.data.TensorDataset(torch.ones(400, 3), torch.ones(400, 3))
    return nn.Bilinear(3, 3, 1), torch.utils.data.DataLoader(data, batch_size=4)

def endless():
    return {"model": nn.Linear(3, 1), "inputs": iter(lambda: torch.ones(8, 3), None)}

def one_tensor():
    return {"model": nn.Linear(3, 1), "inputs": torch.ones(8, 3)}

def one_mapping():
    rows = collections.UserDict(input1=torch.ones(8, 3), input2=torch.ones(8, 3))
    return {"model": nn.Bilinear(3, 3, 1), "inputs": rows}

def odd_loss():
    return {"model": nn.Linear(3, 1), "args": torch.ones(1, 3), "loss": 3}

def odd_optimizer():
    return {"model": nn.Linear(3, 1), "args": torch.ones(1, 3), "optimizer": 3}

class Reads(nn.Linear):
    def forward(self, x):
        return super().forward(x) * x.sum().item()

def reads_values():
    return Reads(3, 1), torch.ones(1, 3)

def wrong_shape():
    return nn.Linear(3, 1), torch.ones(1, 5)

CONSTANT = 3
A_MODEL = nn.Linear(3, 1)

class Zoo:
    @staticmethod
    def tiny():
        return nn.Linear(3, 1), torch.ones(1, 3)

def of_widths(widths=(64, 32)):
    return nn.Sequential(*[nn.Linear(3, 3) for _ in widths]), (torch.ones(2, 3),)

def failing_generator():
    def batches():
        yield torch.ones(2, 3)
        raise FileNotFoundError("no such picture")
    return {"model": nn.Linear(3, 1), "inputs": batches()}

class Pictures(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): raise FileNotFoundError("no such picture")

def failing_dataset():
    return {"model": nn.Linear(3, 1), "inputs": torch.utils.data.DataLoader(Pictures())}

def frozen_norm():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model[1].eval()
    return model, (torch.ones(2, 3),)

def dropout_stays():
    model = nn.Sequential(nn.Dropout(), nn.Linear(3, 3)).eval()
    model[0].train()
    return model, (torch.ones(2, 3),)

class Evaluates(nn.Sequential):
    def eval(self): return {"accuracy": 0.9}

def evaluates():
    return Evaluates(nn.Dropout(), nn.Linear(3, 3)), (torch.ones(2, 3),)

class TrainsEpochs(nn.Sequential):
    def train(self, epochs=10): raise RuntimeError("a whole training was begun")

def trains_epochs():
    return TrainsEpochs(nn.Dropout(), nn.Linear(3, 3)), (torch.ones(2, 3),)

class Freezes(nn.Sequential):
    def train(self, *mode):
        super().train(*mode)
        self[1].eval()
        return self

def freezes():
    model = Freezes(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout())
    model[2].eval()
    return model, (torch.ones(2, 3),)

class NeedsALoader(nn.Sequential):
    def eval(self, loader): return loader

def needs_a_loader():
    return NeedsALoader(nn.Dropout(), nn.Linear(3, 3)), (torch.ones(2, 3),)
"""
