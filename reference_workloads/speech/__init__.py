"""Speech recognition."""

from statsnet.workloads.registry import register

register(
    "reference_workloads.speech.deepspeech2:build",
    name="deepspeech2",
    domain="speech",
    title="DeepSpeech 2, 2 convolutions and 5 bidirectional GRUs of 800",
    source="Amodei et al., Deep Speech 2, arXiv 1512.02595; layers and sizes as in "
    "SeanNaren/deepspeech.pytorch",
    parameters=41_187_968,  # what the published sizes give
    sample={"batch": 1, "frames": 200},
    presets={
        "standard": {"batch": 32, "frames": 1200},
        "small": {"batch": 4, "frames": 160},
        "tiny": {"batch": 2, "frames": 24, "layers": 2, "hidden": 32},
    },
    optimizer="sgd_momentum",
    tags=("recurrent", "convolution", "2015"),
)
