"""Recommendation: large embedding tables, small dense layers, skewed indices."""

from reference_workloads.shipped import shipped

add = shipped("recsys")

add(
    "dlrm",
    title="DLRM, Criteo Kaggle configuration",
    source="Naumov et al., Deep learning recommendation model, arXiv 1906.00091; table sizes of the Criteo "
    "Kaggle data set as in facebookresearch/dlrm",
    parameters=540_677_217,  # what the published sizes give; the repository says 540 M
    sample={"batch": 1},
    presets={"standard": {"batch": 2048}, "small": {"batch": 1024}, "tiny": {"batch": 16, "max_rows": 1000}},
    optimizer="sgd",
    tags=("MLPerf", "embedding", "sparse gradients", "2019"),
)

add(
    "ncf",
    title="Neural matrix factorisation, MovieLens 20M",
    source="He et al., Neural collaborative filtering, arXiv 1708.05031; sizes as in MLPerf training v0.5",
    parameters=31_832_577,
    sample={"batch": 1},
    presets={"standard": {"batch": 65536}, "small": {"batch": 8192}, "tiny": {"batch": 16, "max_rows": 1000}},
    optimizer="adam",
    tags=("AI Matrix", "AIBench", "MLPerf", "embedding", "2017"),
)

add(
    "din",
    title="Deep interest network, Amazon Electronics",
    source="Zhou et al., Deep interest network for click-through rate prediction, arXiv 1706.06978; layers "
    "and sizes as in the authors' code, zhougr1993/DeepInterestNetwork",
    parameters=4_231_771,  # what the authors' sizes give, without their unused table of users
    sample={"batch": 1, "history": 100},
    presets={
        "standard": {"batch": 1024, "history": 100},
        "small": {"batch": 512, "history": 100},
        "tiny": {"batch": 16, "history": 12, "max_rows": 1000},
    },
    optimizer="sgd",
    tags=("AI Matrix", "embedding", "attention over a history", "sparse gradients", "2017"),
)

add(
    "dien",
    title="Deep interest evolution network, Amazon Books",
    source="Zhou et al., Deep interest evolution network for click-through rate prediction, arXiv "
    "1809.03672; layers and sizes as in the authors' code, mouna99/dien, which AI Matrix runs",
    parameters=16_514_487,  # none published; tables of 543,060 users, 367,983 items and 1,601 categories, 18 wide
    sample={"batch": 1, "history": 100},
    presets={
        "standard": {"batch": 1024, "history": 100},
        "small": {"batch": 512, "history": 100},
        "tiny": {"batch": 16, "history": 12, "max_rows": 1000},
    },
    optimizer="adam",
    tags=("AI Matrix", "embedding", "recurrent", "attention over a history", "2018"),
)

add(
    "wide_deep",
    title="Wide & Deep, census",
    source="Cheng et al., Wide & deep learning for recommender systems, arXiv 1606.07792; columns and layers "
    "as in TensorFlow's official model for the census data, which AI Matrix runs",
    parameters=28_926,  # none published; the sizes give 28,926
    sample={"batch": 1},
    presets={"standard": {"batch": 4096}, "small": {"batch": 4096}, "tiny": {"batch": 16}},
    optimizer="adagrad",
    tags=("AI Matrix", "embedding", "crossed features", "2016"),
)

add(
    "dlrm_dcnv2",
    title="DLRM-DCNv2, multi-hot Criteo 1TB (tables of at most 100,000 rows in `small`)",
    source="Naumov et al., arXiv 1906.00091, and Wang et al., DCN V2, arXiv 2008.13535; sizes, and indices a "
    "feature, as in MLPerf training v3.0",
    parameters=26_151_671_809,  # tables as published by MLPerf: 204,184,588 rows of 128, 26.1 G
    sample={"batch": 1},
    presets={
        "standard": {"batch": 8192, "max_rows": 40_000_000},  # one of eight devices
        "small": {"batch": 512, "max_rows": 100_000},
        "tiny": {"batch": 16, "max_rows": 1000, "width": 16},
    },
    optimizer="adagrad",
    tags=("MLPerf", "embedding", "multi-hot", "sparse gradients", "cross layers", "2023"),
)

add(
    "ranking_distillation",
    title="Ranking distillation of Caser, Gowalla",
    source="Tang and Wang, Ranking distillation, arXiv 1809.07428, and Personalized top-N sequential "
    "recommendation, arXiv 1809.07426; sizes as in graytowne/rank_distill",
    parameters=8_366_334,  # published: teacher 5.58 M, student 2.79 M (paper)
    sample={"batch": 1},
    presets={"standard": {"batch": 512}, "small": {"batch": 512}, "tiny": {"batch": 16, "max_rows": 200, "width": 8}},
    optimizer="adam",
    tags=("AIBench", "embedding", "convolution", "distillation", "2018"),
)

add(
    "two_tower",
    title="Two-tower retrieval with a softmax over the batch",
    source="Yi et al., Sampling-bias-corrected neural modeling for large corpus item recommendations, RecSys "
    "2019; tables as in torchrec's retrieval example",
    parameters=135_662_848,  # none published; the sizes give 136 M
    sample={"batch": 1, "history": 50},
    presets={
        "standard": {"batch": 8192, "history": 50},
        "small": {"batch": 1024, "history": 50},
        "tiny": {"batch": 16, "history": 6, "max_rows": 1000},
    },
    optimizer="adagrad",
    tags=("embedding", "retrieval", "sparse gradients", "2019"),
)

add(
    "sasrec",
    title="SASRec, MovieLens-1M",
    source="Kang and McAuley, Self-attentive sequential recommendation, arXiv 1808.09781; layers and sizes "
    "as in the authors' code, kang205/SASRec",
    parameters=206_850,  # none published; the sizes give 0.21 M
    sample={"batch": 1, "history": 200},
    presets={
        "standard": {"batch": 128, "history": 200},
        "small": {"batch": 128, "history": 200},
        "tiny": {"batch": 4, "history": 12, "max_rows": 100},
    },
    optimizer="adam",
    tags=("embedding", "causal attention", "2018"),
)
