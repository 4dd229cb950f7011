"""The words that a signature may hold. A library's public name may be added, never a user's."""

from __future__ import annotations

OP_NAMESPACES = frozenset(
    {"aten", "prim", "prims", "inductor", "inductor_prims", "rngprims", "mkl", "mkldnn", "mkldnn_prepacked",
     "onednn", "quantized", "_quantized", "quantized_decomposed", "sparse", "c10d", "c10d_functional",
     "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor", "torchvision", "torchaudio",
     "torchao", "fbgemm", "transformers", "xformers", "flash_attn", "bitsandbytes"}
)  # fmt: skip
"""Operator namespaces of torch and of public libraries."""

OPAQUE_OP = "custom.opaque.default"
"""Stands for every operator of another namespace: a customer's own."""

OPTIMIZERS = frozenset(
    {"adadelta", "adafactor", "adagrad", "adam", "adamw", "adamax", "asgd", "lamb", "lars", "lbfgs", "lion",
     "muon", "nadam", "radam", "rmsprop", "rprop", "sgd", "sgdmomentum", "sparseadam",
     "custom"}
)  # fmt: skip
"""Optimizers by lower-case name without underscores; `custom` stands for a customer's own."""

KERNEL_LIBRARIES = ("onednn", "mkl")
"""Prefixes under which a name comes from a library's own log and is public as a whole."""

KERNEL_NAMES = frozenset({"aten", "none", "unknown", "unnamed", "opaque"})

OPAQUE_KERNEL = "opaque"
"""Stands for a kernel whose name is not recognised."""

KERNEL_WORDS = frozenset(
    """
    accumulate activation adagrad adam adamw adaptive addmm advance affine agent align aligned allgather
    allreduce ampere anonymous apply arange argmax argmin array aten atomic attention average backward bag
    batch batched batchnorm bernoulli beta bfloat bgemm bias bicubic bilinear binary binop bitonic block
    blockwise bnorm bool boolean box bprop brdgmm brgconv brgemm broadcast bucketize cache cast cat causal
    ceil cell cgemm channel channels clamp class cluster coalesced collective column colwise combine
    compact compare complex compute concat constant contig contiguous conv convert convolution convolve
    cooperative copy core cosine count cross cublas cublaslt cuda cudnn cumprod cumsum cunn cutlass data
    decode deconv deconvolution dense depthwise desc device dgemm dgemv dgrad dgradw diag dim direct
    dispatch distance distribution divide dot dropout dtrsm dual dwconv dynamic elem elementwise elemwise
    embedding engine entropy epilogue erfinv exclusive execute expand exponential fast fill filter find
    first flash flashattn flatten flip float floor flops fmha foreach forward fprop frac frame function
    functor fused gamma gather geglu gelu gemm gemmk gemv generic grad gram grid group grouped groupnorm
    half hardsigmoid hardswish hardtanh head helper hgemm histogram hmma hopper hswish hyper igemm image
    imma impl implicit inclusive index indexed indices inference infinity init initialize inner innermost
    input instance int integer interior interpolate invoke iter iteration kernel kernels kreduce krnl kth
    large lars last latency launch layer layernorm layers layout ldg leaky legacy lerp less linear
    linspace list load local logical logsoftmax logsumexp long lookback lookup loop loss lower lstm main
    manual mask masked matmul matrix matvec maximum maxpool mean medium memcpy memset merge minimum mkldnn
    moments multi multimem multinomial multiply multiprocess namespace native nccl nchw nchwc nchwtonhwc
    ncsp nearest nhwc nhwctonchw node nodim noncontiguous none nonzero norm normal normalization nspc
    nvjet offset offsets onednn onesweep opaque operator optimized optimizer outer outermost output pack
    packed padding pageable paged parallel partial partition permutation permute persist persistent philox
    pingpong pinned pixel place plain pointwise policy pool pooled pooling position power precomputed
    prefill prefix preprocess prod product pytorch quantize quantized radix random range rcp reciprocal
    record recurrent reduce reduced reducescatter reduction reflection region register regs relu renorm
    reorder repeat replication reshape resize reverse rms rmsnorm rnn roll rope rotary round rowwise rsqrt
    sample sampling saxpy scal scalar scale scaled scan scatter scudnn sdot searchsorted segment segmented
    select selu send sequence sgemm sgemv sgemvx shared shift shuffle sigmoid sign silu simple simt sincos
    single size slice sliced small smem smooth soft softmax softmin softplus softshrink sort sorted sparse
    spatial split splitk splitkreduce sqrt square stack staged static statistics store strategy stream
    streamk stride strided strsm sub subtract sum sumsq swap sweep swiglu swish swizzle sync tanh target
    template tensor tensorop tensors threshold tile tiled tilesize topk train training transform
    transformer transpose transposed triangular tril triton triu trsv turing type types uint unary unfold
    uniform union unique universal unnamed unpack unpadded unpermute unrolled update upper upsample value
    values varlen vector vectorized volta volume warp warpgroup warpgroupsize warpspecialized weight
    weights welford wgmma wgrad where winograd wise with without workspace wrap write xmma xnor zero zeros
    zgemm
    """.split()  # noqa: SIM905 (a list of quoted words is unreadable)
)
"""Words of four letters and more in the kernel names of torch, cuBLAS, cuDNN, CUTLASS, oneDNN and Triton's
own templates. Shorter words and numbers (tile sizes, layouts, architectures) pass beside a known word."""
