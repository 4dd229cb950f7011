"""The integer program: how often each block is repeated, so that a network has a target's characteristics.

Its rows
    matched_characteristics, nearest_blocks, elsewhere, modelled_devices
Its columns and its solution
    weighted_columns, integer_program, local_search
"""
