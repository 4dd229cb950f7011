"""Single operators in the sizes that benchmark suites list: a step runs every row of a table once."""

from reference_workloads.shipped import shipped

add = shipped("micro")

add(
    "deepbench_gemm",
    built_by="deepbench:gemm",
    title="DeepBench, matrix products",
    source="baidu-research/DeepBench: its training set, and its inference sets for servers and devices",
    parameters=7_033_136_192,  # single operators: none published
    sample={"every": 1},
    presets={
        "standard": {"every": 1},  # some 75 GB in training, in single precision
        "small": {"every": 41},
        "tiny": {"every": 25, "shrink": 32},
    },
    optimizer="sgd",
    tags=("DeepBench", "single operators", "matrix products", "2016"),
)

add(
    "deepbench_conv",
    built_by="deepbench:conv",
    title="DeepBench, convolutions",
    source="baidu-research/DeepBench: its training set, and its inference sets for servers and devices",
    parameters=116_150_944,  # single operators: none published
    sample={"every": 1},
    presets={"standard": {"every": 1}, "small": {"every": 9}, "tiny": {"every": 20, "shrink": 16}},
    optimizer="sgd",
    tags=("DeepBench", "single operators", "convolution", "2016"),
)

add(
    "deepbench_rnn",
    built_by="deepbench:rnn",
    title="DeepBench, recurrent layers",
    source="baidu-research/DeepBench: its training set, and its inference sets for servers and devices",
    parameters=3_131_523_008,  # single operators: none published
    sample={"every": 1},
    presets={"standard": {"every": 1}, "small": {"every": 50}, "tiny": {"every": 25, "shrink": 64}},
    optimizer="sgd",
    tags=("DeepBench", "single operators", "recurrent", "2016"),
)

add(
    "deepbench_sparse",
    title="DeepBench, products of a pruned and a dense matrix",
    source="baidu-research/DeepBench: its inference sets for servers and devices",
    parameters=147_554_304,  # single operators: none published
    sample={"every": 1},
    presets={"standard": {"every": 1}, "small": {"every": 15}, "tiny": {"every": 8, "shrink": 64}},
    optimizer="sgd",
    tags=("DeepBench", "single operators", "sparse matrices", "2017"),
)

add(
    "deepbench_all_reduce",
    title="DeepBench, all-reduces",
    source="baidu-research/DeepBench: its seven sizes, over the processes that torchrun started",
    parameters=1,  # single operators: none published
    sample={"every": 1},
    presets={"standard": {"every": 1}, "small": {"every": 1}, "tiny": {"every": 3, "shrink": 1000}},
    optimizer="sgd",
    tags=("DeepBench", "single operators", "collective", "2016"),
)

add(
    "ai_matrix_layers",
    built_by="ai_matrix:layers",
    title="AI Matrix, layers of CNNs",
    source="alibaba/ai-matrix, layer-based benchmark: layers of AlexNet, GoogLeNet, VGG, ResNet and DenseNet",
    parameters=213_728_104,  # single operators: none published
    sample={"every": 1},
    presets={"standard": {"every": 1}, "small": {"every": 13}, "tiny": {"every": 23, "shrink": 16}},
    optimizer="sgd",
    tags=("AI Matrix", "single operators", "convolution", "pooling", "normalisation", "activation", "2018"),
)

add(
    "ai_matrix_gemm",
    built_by="ai_matrix:gemm",
    title="AI Matrix, matrix products",
    source="alibaba/ai-matrix, micro benchmark: m = n up to 21504, k up to 17408, and its stress cubes",
    parameters=3_246_653_440,  # single operators: none published
    sample={"every": 1},
    presets={
        "standard": {"every": 1},  # some 55 GB in training, in single precision
        "small": {"every": 28},
        "tiny": {"every": 9, "shrink": 256},
    },
    optimizer="sgd",
    tags=("AI Matrix", "single operators", "matrix products", "2018"),
)

add(
    "ai_matrix_rnn",
    built_by="ai_matrix:rnn",
    title="AI Matrix, recurrent layers",
    source="alibaba/ai-matrix, layer-based benchmark: LSTM, GRU and vanilla cells, 256 to 2560 wide",
    parameters=837_140_480,  # single operators: none published
    sample={"every": 1},
    presets={"standard": {"every": 1}, "small": {"every": 23}, "tiny": {"every": 31, "shrink": 16}},
    optimizer="sgd",
    tags=("AI Matrix", "single operators", "recurrent", "2018"),
)

add(
    "dnnmark",
    title="DNNMark, primitives",
    source="Dong and Kaeli, DNNMark, a deep neural network benchmark suite for GPUs, GPGPU-10, 2017; sizes "
    "of the example configurations in shidong-ai/DNNMark",
    parameters=244_769_104,  # single operators: none published
    sample={"every": 1},
    presets={"standard": {"every": 1}, "small": {"every": 15}, "tiny": {"every": 5, "shrink": 16}},
    optimizer="sgd",
    tags=("DNNMark", "single operators", "convolution", "pooling", "normalisation", "activation", "2017"),
)
