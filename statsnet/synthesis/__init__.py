"""From a target to a proxy: candidates, their measurement, the integer program, the network, its correction.

Folders here are subjects, not layers: they may import each other.

What is asked
    asked, common_dtype, budget, effort, expected_time
Which blocks may stand for the mix, and which of them are measured
    candidates/, measured_candidates, expected_costs, earlier_networks
Where it measures: members, blocks, networks
    bench/
What a block costs, also in sizes that were not measured
    costs/
The integer program and its solution
    problem, program/
Build, measure, learn, and again
    rounds, next_network, chosen_network, failing_blocks, phases, confirming, trials
The finished proxy
    synthesize, together, collectives, tower_purposes
A search over designs, with Optuna
    search/
"""
