"""What the commands print, built from data: pure functions that return renderables and print nothing.

What all tables share
    tables, narrow, listings
Signatures and mixes
    signature, gpu, collectives, check, audit
Many workloads
    characteristics, similarity, map_picture
Proxies
    proxy, simulation, updated, cover, front, stages, export
Results
    results, validation, standings, scenarios, explain
Devices and machines
    device, machine
Pictures, pages and notebooks
    pictures, html/, values
"""
