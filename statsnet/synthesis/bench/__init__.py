"""What measures for a synthesis.

What it asks, and the device that answers
    bench, live_bench, machine_speed, disturbances
The mix's members
    live_members, retimed_members
Blocks and networks
    tasks, capture_tasks, single_block, blocks_in_turn, block_runs, block_measurement, network_measurement
"""
