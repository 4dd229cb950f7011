"""Models whose operators nobody can watch are refused before they run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from statsnet.errors import WorkloadError
from statsnet.workloads.loading import Target

if TYPE_CHECKING:
    import torch

WITHOUT_COMPILER = "TORCHDYNAMO_DISABLE"
"""If this variable is 1, torch.compile gives back what it gets."""


def check_not_compiled(target: Target, model: torch.nn.Module) -> None:
    """While it is watched, a compiled module falls back to separate operators: their times would stand beside step
    times of another program."""
    if os.environ.get(WITHOUT_COMPILER) == "1":
        return
    compiler = sys.modules.get("torch._dynamo.eval_frame")  # seconds to import; whoever compiled something has

    def is_compiled(module: Any) -> bool:
        wrapped = compiler is not None and isinstance(module, compiler.OptimizedModule)
        return wrapped or getattr(module, "_compiled_call_impl", None) is not None

    if (compiled := next(filter(is_compiled, model.modules()), None)) is not None:
        inner = getattr(compiled, "_orig_mod", compiled)
        raise WorkloadError(
            f"the model of '{target.label}' is compiled already",
            cause=f"its operators cannot be watched while the compiled {type(inner).__name__} runs",
            hint=f"return the module as it is, or set {WITHOUT_COMPILER}=1, which does so; --setting compile=inductor "
            "measures it compiled",
        )


def check_not_for_onednn(target: Target, model: torch.nn.Module) -> None:
    """What `torch.jit.optimize_for_inference` puts in place of convolutions and linear layers is no operator of
    torch's: neither a capture nor the profiler sees it. It inlines a script, so the graph of each script by itself
    shows it; the graphs of inner scripts would be there again and again if they were inlined."""
    import torch

    scripts = [m for m in model.modules() if isinstance(m, torch.jit.ScriptModule) and m._c._has_method("forward")]
    if any("prim::mkldnn_" in str(script.graph) for script in scripts):
        raise WorkloadError(
            f"the model of '{target.label}' is a script that is optimized for inference",
            cause="its convolutions and linear layers run in oneDNN without torch's operators",
            hint="return the script as it was before torch.jit.optimize_for_inference",
        )
