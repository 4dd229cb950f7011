"""From a running model to a signature: capture, timeline, motifs, costs."""
