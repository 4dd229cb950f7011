"""Language models."""

from reference_workloads.shipped import shipped

add = shipped("nlp")

add(
    "bert_base",
    built_by="bert:base",
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
    tags=("AI Matrix", "transformer", "attention", "transformers", "2018"),
)

add(
    "gpt2",
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

add(
    "gnmt",
    title="GNMT, 4 + 4 LSTM layers of 1024",
    source="Wu et al., Google's neural machine translation system, arXiv 1609.08144; layers as in MLPerf "
    "training's rnn_translator, batch and length as in AI Matrix",
    # published: none for this variant; 210 M (MLPerf inference, arXiv 1911.02549) is tensorflow/nmt's, with
    # three tables of 36,549 words and the attention fed back
    parameters=160_671_296,
    sample={"batch": 1, "sequence": 50},
    presets={
        "standard": {"batch": 128, "sequence": 50},
        "small": {"batch": 4, "sequence": 25},
        "tiny": {"batch": 2, "sequence": 6, "hidden": 32, "vocabulary": 1000},
    },
    optimizer="adam",
    tags=("AI Matrix", "MLPerf", "translation", "recurrent", "attention", "2016"),
)

add(
    "transformer_base",
    title="Transformer base, WMT English-German",
    source="Vaswani et al., Attention is all you need, arXiv 1706.03762; a batch is one GPU's share of the "
    "paper's 25,000 tokens",
    parameters=63_045_632,  # published: 65 M (paper, table 3)
    sample={"batch": 1, "sequence": 50},
    presets={
        "standard": {"batch": 64, "sequence": 50},
        "small": {"batch": 4, "sequence": 50},
        "tiny": {"batch": 2, "sequence": 8, "layers": 2, "hidden": 128, "vocabulary": 1000},
    },
    optimizer="adam",
    tags=("AIBench", "MLPerf", "TBD", "translation", "transformer", "attention", "2017"),
)

add(
    "summarization",
    title="Attentional GRU encoder-decoder for headlines, Gigaword",
    source="Nallapati et al., Abstractive text summarization using sequence-to-sequence RNNs and beyond, "
    "arXiv 1602.06023; sizes of its words-lvt2k",
    parameters=69_629_685,  # published: none
    sample={"batch": 1, "sequence": 32},
    presets={
        "standard": {"batch": 50, "sequence": 32},
        "small": {"batch": 16, "sequence": 32},
        "tiny": {"batch": 2, "sequence": 12, "embedding": 16, "hidden": 24, "max_words": 1000, "candidates": 100},
    },
    optimizer="adam",  # the paper's is Adadelta
    tags=("AIBench", "summarization", "recurrent", "attention", "2016"),
)

add(
    "seq2seq",
    title="Attentional LSTM translation, 3 + 3 layers of 256",
    source="Adolf et al., Fathom, arXiv 1608.06581; sizes as in rdadolf/fathom, after Sutskever et al., "
    "Sequence to sequence learning with neural networks, arXiv 1409.3215",
    parameters=34_639_936,  # published: none
    sample={"batch": 1, "sequence": 50},
    presets={
        "standard": {"batch": 64, "sequence": 50},
        "small": {"batch": 16, "sequence": 25},
        "tiny": {"batch": 2, "sequence": 5, "hidden": 16, "vocabulary": 1000},
    },
    optimizer="sgd",
    tags=(
        "Fathom",
        "TBD",
        "HPC workload analysis",
        "translation",
        "recurrent",
        "attention",
        "sparse gradients",
        "2014",
    ),
)

add(
    "memn2n",
    title="End-to-end memory network, bAbI",
    source="Sukhbaatar et al., End-to-end memory networks, arXiv 1503.08895; the model trained on all tasks",
    parameters=45_400,  # published: none
    sample={"batch": 1},
    presets={
        "standard": {"batch": 32},
        "small": {"batch": 256},  # a step of the published batch takes a few milliseconds
        "tiny": {"batch": 4, "sequence": 8, "hidden": 10},
    },
    optimizer="sgd",
    tags=("Fathom", "question answering", "memory", "embedding", "2015"),
)

add(
    "rnn_lm",
    title="LSTM language model, 2 x 650, tied, WikiText-2",
    source="pytorch/examples, word_language_model with --emsize 650 --nhid 650 --dropout 0.5 --tied, after "
    "Zaremba et al., Recurrent neural network regularization, arXiv 1409.2329",
    parameters=28_434_378,  # published: none
    sample={"batch": 1, "sequence": 35},
    presets={
        "standard": {"batch": 20, "sequence": 35},
        "small": {"batch": 20, "sequence": 35},
        "tiny": {"batch": 2, "sequence": 6, "hidden": 32, "vocabulary": 1000},
    },
    optimizer="sgd",
    tags=("HPC workload analysis", "language model", "recurrent", "2014"),
)

add(
    "aoa_reader",
    title="Attention-over-attention reader, Children's Book Test",
    source="Cui et al., Attention-over-attention neural networks for reading comprehension, arXiv "
    "1607.04423; sizes for CBTest's named entities",
    parameters=21_362_304,  # published: none
    sample={"batch": 1, "sequence": 433},
    presets={
        "standard": {"batch": 32, "sequence": 433},
        "small": {"batch": 4, "sequence": 433},
        "tiny": {"batch": 2, "sequence": 24, "embedding": 24, "hidden": 16, "vocabulary": 1000},
    },
    optimizer="adam",
    tags=("HPC workload analysis", "question answering", "recurrent", "attention", "2016"),
)

add(
    "bidaf",
    title="Bidirectional attention flow, SQuAD",
    source="Seo et al., Bidirectional attention flow for machine comprehension, arXiv 1611.01603; layers and "
    "sizes as in allenai/bi-att-flow",
    parameters=2_575_999,  # published: 2.6 M (paper, section 4.1), without the fixed vectors of words
    sample={"batch": 1, "sequence": 400},
    presets={
        "standard": {"batch": 60, "sequence": 400},
        "small": {"batch": 4, "sequence": 400},
        "tiny": {"batch": 2, "sequence": 24, "hidden": 16, "vocabulary": 1000},
    },
    optimizer="adam",  # the paper's is Adadelta
    tags=("DAWNBench", "question answering", "recurrent", "attention", "convolution", "2016"),
)

add(
    "sentiment",
    title="Convolutional sentiment classifier, IMDB",
    source="Johnson and Zhang, Effective use of word order for text categorization with convolutional neural "
    "networks, arXiv 1412.1058; layers and sizes as in MLPerf training v0.5",
    parameters=12_616_706,  # published: none
    sample={"batch": 1, "sequence": 230},
    presets={
        "standard": {"batch": 128, "sequence": 230},
        "small": {"batch": 8, "sequence": 230},
        "tiny": {"batch": 2, "sequence": 16, "hidden": 32, "vocabulary": 1000},
    },
    optimizer="adam",
    tags=("MLPerf", "classification", "convolution", "embedding", "2014"),
)

add(
    "enas",
    title="ENAS on Penn Treebank: shared recurrent cell and controller",
    source="Pham et al., Efficient neural architecture search via parameter sharing, arXiv 1802.03268; sizes "
    "as in the search script of melodyguan/enas, with one matrix a pair of nodes as in the paper",
    parameters=77_840_200,  # published: none for the search; 24 M for the cell it found, in its final width
    sample={"batch": 1, "sequence": 35},
    presets={
        "standard": {"batch": 20, "sequence": 35},
        "small": {"batch": 20, "sequence": 35},
        "tiny": {"batch": 4, "sequence": 5, "hidden": 32, "vocabulary": 1000},
    },
    optimizer="sgd",
    tags=("AIBench", "architecture search", "language model", "recurrent", "two networks", "2018"),
)

add(
    "bert_large",
    built_by="bert:large",
    title="BERT large with SQuAD's head",
    source="Devlin et al., BERT, arXiv 1810.04805; sequences of 384 as in MLPerf inference and AI Matrix",
    parameters=334_094_338,  # published: 340 M (paper), with the pooler that this head does without
    sample={"batch": 1, "sequence": 128},
    presets={
        "standard": {"batch": 16, "sequence": 384},
        "small": {"batch": 2, "sequence": 128},
        "tiny": {"batch": 2, "sequence": 16, "layers": 2, "hidden": 64, "vocabulary": 1000},
    },
    optimizer="adamw",
    tags=("AI Matrix", "MLPerf", "transformer", "attention", "transformers", "2018"),
)
