"""What a block costs.

Its operators' time and work, alone and in a network
    loads, block_costs, corrections
In sizes that were not measured
    resized_blocks, overhead
"""
