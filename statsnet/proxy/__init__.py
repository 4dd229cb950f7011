"""A proxy as data and as source: towers of blocks, the network's text, the folder on disk.

A network as data
    spec, towers
Its source
    emit, step_source, tower_source, templates, step_templates, block_sources, communication, collective_places,
    code_layout, run_file
Its folder
    folder, whole_folder, readme, fit_picture, private_fit
"""
