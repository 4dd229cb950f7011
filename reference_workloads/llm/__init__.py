"""Large language models in serving: reading prompts, and one token more; few layers where memory is small."""

from reference_workloads.shipped import shipped

add = shipped("llm")

# Plain SGD where training is not what the suites measure: the state of Adam would not fit beside `small`.

add(
    "gptj",
    title="GPT-J 6B, prompt processing (`small`: 2 of 28 layers)",
    source="Wang and Komatsuzaki, GPT-J-6B, kingoflolz/mesh-transformer-jax, 2021; prompts of CNN/DailyMail "
    "up to 1919 tokens as in MLPerf inference v3.1",
    parameters=6_050_882_784,  # published: 6 B (authors); 6,050,882,784 follow from the published sizes
    sample={"batch": 1, "sequence": 128, "layers": 28},
    presets={
        "standard": {"batch": 1, "sequence": 1919, "layers": 28},
        "small": {"batch": 1, "sequence": 64, "layers": 2},
        "tiny": {"batch": 2, "sequence": 16, "layers": 2, "hidden": 128, "head": 32, "vocabulary": 1000},
    },
    optimizer="sgd",
    tags=("MLPerf", "transformer", "causal attention", "prefill", "transformers", "2021"),
)

add(
    "llama2_70b_prefill",
    built_by="llama:llama2_70b_prefill",
    title="Llama 2 70B, prompt processing (`small`: 1 of 80 layers)",
    source="Touvron et al., Llama 2: open foundation and fine-tuned chat models, arXiv 2307.09288; prompts "
    "of OpenOrca up to 1024 tokens as in MLPerf inference v4.0",
    parameters=68_976_648_192,  # published: 70 B (paper); 68,976,648,192 follow from the published sizes
    sample={"batch": 1, "sequence": 128, "layers": 80},
    presets={
        "standard": {"batch": 1, "sequence": 1024, "layers": 80},
        "small": {"batch": 1, "sequence": 32, "layers": 1},
        "tiny": {"batch": 2, "sequence": 16, "layers": 2, "hidden": 128, "head": 16, "vocabulary": 1000},
    },
    optimizer="sgd",
    tags=("MLPerf", "transformer", "grouped-query attention", "prefill", "transformers", "2023"),
)

add(
    "llama3_8b_prefill",
    built_by="llama:llama3_8b_prefill",
    title="Llama 3 8B, prompt processing (`small`: 2 of 32 layers)",
    source="Grattafiori et al., The Llama 3 herd of models, arXiv 2407.21783; sizes as in "
    "meta-llama/Meta-Llama-3-8B; the model of MLPerf's llama3.1_8b without its scaled positions",
    parameters=8_030_261_248,  # published: 8.03 B (model card); 8,030,261,248 follow from the published sizes
    sample={"batch": 1, "sequence": 128, "layers": 32},
    presets={
        "standard": {"batch": 1, "sequence": 2048, "layers": 32},
        "small": {"batch": 1, "sequence": 64, "layers": 2},
        "tiny": {"batch": 2, "sequence": 16, "layers": 2, "hidden": 128, "head": 16, "vocabulary": 1000},
    },
    optimizer="sgd",
    tags=("MLPerf", "transformer", "grouped-query attention", "prefill", "transformers", "2024"),
)

add(
    "llama3_8b_decode",
    built_by="llama:llama3_8b_decode",
    title="Llama 3 8B, one decoding step (`small`: 2 of 32 layers)",
    source="Grattafiori et al., The Llama 3 herd of models, arXiv 2407.21783; sizes as in "
    "meta-llama/Meta-Llama-3-8B; the model of MLPerf's llama3.1_8b without its scaled positions",
    parameters=8_030_261_248,  # published: 8.03 B (model card); 8,030,261,248 follow from the published sizes
    sample={"batch": 1, "history": 128, "layers": 32},
    presets={
        "standard": {"batch": 16, "history": 2048, "layers": 32},
        "small": {"batch": 1, "history": 512, "layers": 2},
        "tiny": {"batch": 2, "history": 16, "layers": 2, "hidden": 128, "head": 16, "vocabulary": 1000},
    },
    optimizer="sgd",
    tags=("MLPerf", "transformer", "grouped-query attention", "decode", "transformers", "2024"),
)

add(
    "mixtral",
    title="Mixtral 8x7B, one decoding step (`small`: 1 of 32 layers)",
    source="Jiang et al., Mixtral of experts, arXiv 2401.04088; in MLPerf inference from v4.1",
    parameters=46_702_792_704,  # published: 47 B, of which a token uses 13 B (paper)
    sample={"batch": 1, "history": 128, "layers": 32},
    presets={
        "standard": {"batch": 8, "history": 1024, "layers": 32},
        "small": {"batch": 1, "history": 128, "layers": 1},
        "tiny": {"batch": 2, "history": 16, "layers": 2, "hidden": 128, "head": 16, "vocabulary": 1000},
    },
    optimizer="sgd",
    tags=("MLPerf", "transformer", "mixture of experts", "decode", "transformers", "2024"),
)

add(
    "mamba",
    title="Mamba 130M, sequential scan",
    source="Gu and Dao, Mamba: linear-time sequence modeling with selective state spaces, arXiv 2312.00752; "
    "sizes as in state-spaces/mamba-130m",
    parameters=129_135_360,  # published: 130 M (paper); 129,135,360 follow from the published sizes
    sample={"batch": 1, "sequence": 32},
    presets={
        "standard": {"batch": 8, "sequence": 128},
        "small": {"batch": 1, "sequence": 32},
        "tiny": {"batch": 2, "sequence": 6, "layers": 2, "hidden": 64, "vocabulary": 1000},
    },
    optimizer="adamw",
    tags=("state space", "recurrent", "transformers", "2023"),
)
