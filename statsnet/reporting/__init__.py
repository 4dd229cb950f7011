"""What the commands print, built from data: pure functions that return renderables and print nothing.

What all tables share
    tables, narrow, listings
Signatures and mixes
    signature, gpu, collectives, check, audit
Many workloads
    characteristics, map_picture
Proxies
    proxy, simulation, updated, cover, front, export
Results
    results, validation, standings, scenarios, explain
Devices and machines
    device, machine
Pictures, pages and notebooks
    pictures, html/, values
"""
