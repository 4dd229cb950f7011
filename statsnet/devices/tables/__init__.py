"""Published tables of operator times, each source read into the same rows."""
