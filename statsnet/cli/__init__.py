"""The command line. A command imports its machinery only when it runs: help and listings need no torch.

The program
    app, completion
What commands share
    options, json_option, output, fleet, scenario_options, layers, trace, search_storage
Signatures
    profile, profile_many, import_recording, aggregate, audit
Proxies
    synthesize, proxy_names, simulators, update, cover, export
Results
    run, run_many, compare, validate, explain
What there is
    listing, show, report, characterize, map
The machine, and devices
    doctor, cache, device
"""

from statsnet.cli.app import main

__all__ = ["main"]
