"""Programs that answer one question each about StatsNet, with the tables that they made. They call the product.

Each program says its question at its top; results/ has the tables.

Does a proxy follow its suite?
    fidelity, fidelity_table, factor_pictures, unseen, drawn/, moved, ways/
On GPUs, and from one to another
    gpu_campaign, across_gpus, across/, record_devices
How near is a proxy, and how long does making one take?
    fit, synthesis_time, timing/, search_front, diagnostics/
In several processes, and on many machines
    fit_together, slow_network, together/, scale, fleet_simulation
For simulators
    presilicon, simulators
What do signatures tell of whose they are?
    reidentification, membership, look_alikes
What do strangers' files, models and interruptions do?
    fuzz, fuzzing/, killed, interrupted, breadth, breadth_models, breadth_proxies
What programs share
    suites, console, csv_tables, pictures, flow_picture
"""
