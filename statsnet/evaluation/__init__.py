"""Proxy to result: run it, compare results, validate it against its suite.

A proxy's result
    run_proxy, speeds
Results compared
    compare, standings, verdicts
A proxy against its suite
    validate, suite, own_models, factors, cover, updated
Where an error comes from
    explain, explained, error_parts, causes
Under load
    scenarios, scenario_rules, scenario_suite, scenario_factors, scenario_compare
This machine, for `doctor`
    machine, noise
"""
