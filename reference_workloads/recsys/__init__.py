"""Recommendation: large embedding tables, small dense layers, skewed indices."""

from statsnet.workloads.registry import register

register(
    "reference_workloads.recsys.dlrm:build",
    name="dlrm",
    domain="recsys",
    title="DLRM, Criteo Kaggle configuration",
    source="Naumov et al., Deep learning recommendation model, arXiv 1906.00091; table sizes of the Criteo "
    "Kaggle data set as in facebookresearch/dlrm",
    parameters=540_677_217,  # what the published sizes give; the repository says 540 M
    sample={"batch": 1},
    presets={"standard": {"batch": 2048}, "small": {"batch": 1024}, "tiny": {"batch": 16, "max_rows": 1000}},
    optimizer="sgd",
    tags=("embedding", "sparse gradients", "2019"),
)

register(
    "reference_workloads.recsys.ncf:build",
    name="ncf",
    domain="recsys",
    title="Neural matrix factorisation, MovieLens 20M",
    source="He et al., Neural collaborative filtering, arXiv 1708.05031; sizes as in MLPerf training v0.5",
    parameters=31_832_577,
    sample={"batch": 1},
    presets={"standard": {"batch": 65536}, "small": {"batch": 8192}, "tiny": {"batch": 16, "max_rows": 1000}},
    optimizer="adam",
    tags=("embedding", "2017"),
)

register(
    "reference_workloads.recsys.din:build",
    name="din",
    domain="recsys",
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
    tags=("embedding", "attention over a history", "sparse gradients", "2017"),
)
