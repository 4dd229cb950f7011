"""Reference workloads: known models with their published dimensions, random weights and made-up inputs.

One folder a domain, one file a model or a family of them: the model and a function, `build(...)` if it is alone, that
returns it with inputs.
The domain's `__init__.py` registers its models without importing torch, so that listing them is quick.
To add one: write the file, add its row, and the tests check it against the figures in the row.
"""

from reference_workloads import cv, detection, generation, graph, llm, micro, nlp, recsys, rl, speech

__all__ = ["cv", "detection", "generation", "graph", "llm", "micro", "nlp", "recsys", "rl", "speech"]
