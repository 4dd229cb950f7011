"""From a running model to a signature: capture, timeline, motifs, costs.

The task: a workload's signature
    tasks, members, api, workload_trace, trace, step_trace, counting, build_signature, step_notes
Every call in order
    capture, own_operators, encode, coarse_scalars, skew, denormals, kernels, kernel_log, higher_order
    unwatched_capture, unseen
Times joined to the calls
    timeline, operator_times, joining, joined_traces, event_names, gpu_activity, hardware_counters
Steps that differ, or run in one piece
    representatives, alike, beside_calls, varying, laps, draws, loop_steps, loop_phases, compiled_step
What follows from the calls
    motifs, memory, autocast_shares, costs/, check
Which library a GPU kernel belongs to
    kernel_families, kernel_names, kernel_codes, kernel_rules
A step of several processes
    distributed, fake_processes, collective_times, collective_record, communication_hooks, uneven_inputs
A signature's operators run again, without the model
    replay_task, replay, made_up, operator_schemas, replay_limits
Steps recorded for a person
    step_recording, marks, trace_tracks, speedscope
"""
