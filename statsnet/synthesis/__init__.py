"""From a target to a proxy: candidates, their measurement, the integer program, the network, its correction.

What is asked
    asked, common_dtype, budget, effort, expected_time
Which blocks may stand for the mix
    sources, gradient_layouts, chains, parts_of_layers, candidates, operator_candidates, nearest_blocks,
    collectives, estimate
Which of them are measured
    measured_candidates, expected_costs, earlier_networks
Where it measures, and the mix's members there
    bench, live_bench, live_members, retimed_members, capture_tasks
Blocks measured
    tasks, single_block, blocks_in_turn, block_runs, block_measurement
What a block costs, also in sizes that were not measured
    loads, block_costs, corrections, resized_blocks, overhead
The integer program and its solution
    problem, matched_characteristics, modelled_devices, elsewhere, integer_program,
    weighted_columns, local_search
Build, measure, learn, and again
    rounds, next_network, chosen_network, failing_blocks, phases, confirming, trials, network_measurement,
    machine_speed, disturbances
The finished proxy
    synthesize, together, tower_purposes
A search over designs, with Optuna
    search, design_space, study, search_identity, study_storage, journal, postgresql, storage_errors
"""
