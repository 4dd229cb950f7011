"""Published tables of operator times, each source read into the same rows.

Rows, and how they are read and checked
    row, words, csv_file, reading, checks, units, provenance
A source each
    aiconfigurator, deepbench, llmservingsim, miopen, neusight, vidur, plain
"""
