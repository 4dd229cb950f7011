"""Speech recognition."""

from reference_workloads.shipped import shipped

add = shipped("speech")

add(
    "deepspeech2",
    title="DeepSpeech 2, 2 convolutions and 5 bidirectional GRUs of 800",
    source="Amodei et al., Deep Speech 2, arXiv 1512.02595; layers and sizes as in SeanNaren/deepspeech.pytorch",
    parameters=41_187_968,  # what the published sizes give
    sample={"batch": 1, "frames": 200},
    presets={
        "standard": {"batch": 32, "frames": 1200},
        "small": {"batch": 4, "frames": 160},
        "tiny": {"batch": 2, "frames": 24, "layers": 2, "hidden": 32},
    },
    optimizer="sgd_momentum",
    tags=("AIBench", "MLPerf", "TBD", "recurrent", "convolution", "2015"),
)

add(
    "deepspeech1",
    title="Deep Speech, 5 layers of 2048, one of them bidirectional",
    source="Hannun et al., Deep Speech, arXiv 1412.5567; sizes as in Mozilla's DeepSpeech, which AI Matrix "
    "runs; the recurrent layer as in the paper and Fathom",
    parameters=30_447_645,  # none published; the sizes give 30.4 M
    sample={"batch": 1, "frames": 100},
    presets={
        "standard": {"batch": 32, "frames": 250},
        "small": {"batch": 4, "frames": 100},
        "tiny": {"batch": 2, "frames": 12, "hidden": 32},
    },
    optimizer="adam",
    tags=("AI Matrix", "Fathom", "recurrent", "dense", "2014"),
)

add(
    "rnnt",
    title="RNN transducer, LSTMs of 2 + 3 layers of 1024 and 2 of 320",
    source="He et al., Streaming end-to-end speech recognition for mobile devices, arXiv 1811.06621; sizes "
    "as in MLPerf inference",
    parameters=45_323_037,  # none published; the sizes give 45.3 M
    sample={"batch": 1, "frames": 300, "sequence": 40},
    presets={
        "standard": {"batch": 32, "frames": 1500, "sequence": 200},
        "small": {"batch": 2, "frames": 300, "sequence": 40},
        "tiny": {"batch": 2, "frames": 60, "sequence": 4, "hidden": 64},
    },
    optimizer="adam",
    tags=("MLPerf", "recurrent", "transducer", "2018"),
)

add(
    "whisper_base",
    title="Whisper base, 30 s of audio and a given text",
    source="Radford et al., Robust speech recognition via large-scale weak supervision, arXiv 2212.04356; "
    "openai/whisper (MLPerf inference: large-v3)",
    parameters=72_593_920,  # published: 74 M (paper, table 1)
    sample={"batch": 1, "sequence": 64},
    presets={
        "standard": {"batch": 16, "sequence": 128},
        "small": {"batch": 1, "sequence": 64},
        "tiny": {"batch": 2, "sequence": 8, "frames": 60, "layers": 2, "hidden": 64, "vocabulary": 1000},
    },
    optimizer="adamw",
    tags=("MLPerf", "transformer", "encoder and decoder", "transformers", "2022"),
)

add(
    "wav2vec2_base",
    title="wav2vec 2.0 base with a layer of characters",
    source="Baevski et al., wav2vec 2.0, arXiv 2006.11477; sizes as in facebook/wav2vec2-base-960h",
    parameters=94_395_552,  # published: 95 M (paper)
    sample={"batch": 1, "frames": 200},
    presets={
        "standard": {"batch": 8, "frames": 1500},
        "small": {"batch": 2, "frames": 200},
        "tiny": {"batch": 2, "frames": 30, "layers": 2, "hidden": 64, "channels": 32},
    },
    optimizer="adam",
    tags=("transformer", "convolution", "transformers", "2020"),
)
