"""What the closed forms share."""

from __future__ import annotations

from itertools import pairwise


def chain(*widths: int) -> int:
    """Multiply-adds of one pass through fully connected layers with these widths."""
    return sum(a * b for a, b in pairwise(widths))


SHORTER: dict[str, dict[str, int]] = {
    "llm/mamba": {"sequence": 2},
    "micro/ai_matrix_rnn": {"every": 41},
    "micro/deepbench_rnn": {"every": 62},
    "micro/deepbench_sparse": {"every": 10},
    "nlp/aoa_reader": {"sequence": 8},
    "nlp/bidaf": {"sequence": 8},
    "nlp/enas": {"sequence": 7},
    "nlp/gnmt": {"sequence": 10},
    "nlp/seq2seq": {"sequence": 10},
    "recsys/dien": {"history": 5},
    "speech/deepspeech2": {"frames": 8},
    "speech/rnnt": {"frames": 60, "sequence": 8},
}
"""Sizes in which the form holds, of those whose whole sample takes long to count: steps repeat the same products."""
