"""Signatures, mixes and targets: reading, checking and arithmetic. Nothing here needs torch.

A signature
    model, measurement, gpu, collectives, operators, tensor_lists, categories
A mix, and its target
    mix_request, mix_file, mix, mix_change, target, target_cluster, computing, statistics, comparison, coverage
A proxy's spec and fit, and results
    documents, saved_proxy, simulation, results, timing, scenarios, intervals
Files: which there are, and how they are checked and found
    kinds, limits, conversion, canonical, strict_json, storage, gzipped, packed, database
What may enter a file
    privacy, vocabulary, word_lists, public_names, member_key
How much a file tells
    levels, coarse, coarse_times, merging, rounding, order, data_counts
Many signatures as one mean step
    aggregation, aggregated_measurement
What an operator's arguments mean
    kernel_class, shapes, strides, indices, partitions, found, sparse, nested, quantized, products, parameters
"""
