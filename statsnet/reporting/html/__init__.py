"""Reports as pages: a file that opens from a mail, with pictures and the tables behind them.

A page
    inputs, document, page, markup, pictures
Pictures by kind of file
    of_signature, of_gpu, of_profiles, of_timeline, of_proxy, of_towers, of_result, of_scenario
"""
