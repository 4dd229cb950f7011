"""The one way to measure: a task in its own process, side by side with others, on a quiet machine. Knows no stage.

A task, and the process that runs it
    task, control, process, outcome, process_main, process_server, forked_process, network_file, tracing
Limits on that process
    memory_watch, sandbox, end_with_parent
How a step is timed
    timing, timing_tasks, turns, cache_flush, runtimes
A graph for other runtimes
    proxy_graph, graph_inputs, whole_layers, lacking_operators, lacking_pools, onnx_translations, onnx_bags
Many samples
    rounds, side_by_side, rounds_log, cache
A quiet machine
    quiet_machine, idle_memory, reference_network, patience, device_lock, at_hand
What a profiler saw
    profiler_events, device_kernels, gpu_power, ncu, ncu_csv
One step in several processes
    several_processes, ranks, rank_ends, rank_errors
Load, asked by MLPerf's load generator
    loadgen, scenario_tasks
On other machines
    errand, engine, fleet, ray_engine, ray_cluster, ray_held, ray_worker, ray_errors
"""
