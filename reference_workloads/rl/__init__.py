"""Reinforcement learning: the networks that choose moves, without the games."""

from reference_workloads.shipped import shipped

add = shipped("rl")

add(
    "dqn",
    built_by="atari:dqn",
    title="Deep Q network with its target network, Atari Breakout",
    source="Mnih et al., Human-level control through deep reinforcement learning, Nature 518, 2015 (arXiv "
    "1312.5602 has a smaller network); sizes as in Fathom",
    parameters=3_372_360,  # none published; the sizes give 1,686,180 for each of both networks
    sample={"batch": 1},
    presets={"standard": {"batch": 32}, "small": {"batch": 32}, "tiny": {"batch": 2, "shrink": 8}},
    optimizer="rmsprop",
    tags=("Fathom", "convolution", "two networks", "2015"),
)

add(
    "a3c",
    built_by="atari:a3c",
    title="A3C with an LSTM, Atari Breakout",
    source="Mnih et al., Asynchronous methods for deep reinforcement learning, arXiv 1602.01783 (TBD: "
    "without the LSTM)",
    parameters=1_203_765,  # none published; the sizes give 1.2 M
    sample={"batch": 1, "sequence": 5},
    presets={
        "standard": {"batch": 32, "sequence": 5},
        "small": {"batch": 32, "sequence": 5},
        "tiny": {"batch": 2, "sequence": 3, "shrink": 8},
    },
    optimizer="rmsprop",
    tags=("TBD", "convolution", "recurrent", "2016"),
)

add(
    "minigo",
    title="MiniGo 19x19, 6 residual blocks of 64",
    source="Silver et al., Mastering the game of Go without human knowledge, Nature 550, 2017; sizes as in "
    "MLPerf training v0.7, tensorflow/minigo",
    parameters=736_671,  # none published; the sizes give 0.74 M
    sample={"batch": 1},
    presets={"standard": {"batch": 4096}, "small": {"batch": 64}, "tiny": {"batch": 2, "blocks": 2, "width": 8}},
    optimizer="sgd_momentum",
    tags=("MLPerf", "convolution", "residual", "2017"),
)
