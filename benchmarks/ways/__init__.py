"""Ways to make something small that stands for a suite: other people's, and StatsNet's own with a part taken out."""
