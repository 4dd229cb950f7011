"""Ways to make something small that stands for a suite, as other people do it."""
