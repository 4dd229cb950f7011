"""Language models."""

from statsnet.workloads.registry import register

register(
    "reference_workloads.nlp.bert_base:build",
    name="bert_base",
    domain="nlp",
    title="BERT base, encoder and pooler",
    source="Devlin et al., BERT, arXiv 1810.04805; FLOPs from TinyBERT, arXiv 1909.10351, table 1",
    parameters=109_482_240,
    flops=22.5e9,  # one sequence of 128 tokens, 2 per multiply-add
    sample={"batch": 1, "sequence": 128},
    presets={
        "standard": {"batch": 32, "sequence": 384},
        "small": {"batch": 4, "sequence": 128},
        "tiny": {"batch": 2, "sequence": 16, "layers": 2, "hidden": 64, "vocabulary": 1000},
    },
    optimizer="adamw",
    tags=("transformer", "attention", "transformers", "2018"),
)

register(
    "reference_workloads.nlp.gpt2:build",
    name="gpt2",
    domain="nlp",
    title="GPT-2 small, prompt processing",
    source="Radford et al., Language models are unsupervised multitask learners, 2019; openai/gpt-2 "
    "(the paper's 117 M is a miscount, the repository says 124 M)",
    parameters=124_439_808,
    sample={"batch": 1, "sequence": 128},
    presets={
        "standard": {"batch": 8, "sequence": 1024},
        "small": {"batch": 2, "sequence": 128},
        "tiny": {"batch": 2, "sequence": 16, "layers": 2, "hidden": 64, "vocabulary": 1000},
    },
    optimizer="adamw",
    tags=("transformer", "causal attention", "transformers", "2019"),
)
