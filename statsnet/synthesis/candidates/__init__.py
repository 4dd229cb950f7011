"""Blocks that may stand for a mix.

What the mix holds
    sources, gradient_layouts, chains, parts_of_layers
Blocks in several sizes
    candidates, operator_candidates, estimate
"""
