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
    accum accumulate accumulated activation activations adafactor adagrad adam adamw adaptive addition addmm
    addrms adjust advance affine agent aiter alibi align aligned alignment allgather alloc allocate allreduce
    alpha amax ampere anchors angle anonymous aotriton apex append apply arange arch argmax argmin array asum
    asymmetric aten atoh atomic attention attn autotune average avgpool axpy backpropagation backward
    backwards balance banded barrier batch batched batchnorm batchnormalization bernoulli beta bfloat bgemm
    bgmv bias bicubic bidirectional bilateral bilinear binary binop bins bitmatrix bitonic bitsandbytes
    blackwell blend block blockscale blockwise bnorm bool boolean bounds bprop brdgmm brgconv brgemm broadcast
    broadcasting bucket bucketize buckets buffer bytes cache calculate calib carry cascade cast casting causal
    ceil cell cgemm cgemv channel channels channelwise check chol cholesky chunk chunked chunkwise cijk clamp
    class classification clean clip cluster coalesced codebook codegen codes collect collective collnet column
    columns colwise combine combined compact compaction comparator compare complex compressed compressor
    compute concat concatenate cond conj conjugate constant context contig contiguous conv convd convert
    convolution convolve cooperative coords copy copybuffer core corr correlation cosine count counting
    covariance cpasync criterion cross cublas cublaslt cuda cudnn cumprod cumsum cumulative cunn cutlass
    cutlassb cutlassf cyclic data decode decoder decoding deconv deconvolution deepep deepgemm deepspeed
    deformable delta dense depthwise dequant dequantize desc descriptor deterministic device dgelu dgemm dgemv
    dgrad dgradw diag diagonal diff dilated direct direction directional dispatch dispatched distance
    distributed distribution distributions divide dkdv doublequant downcast dqkv drop dropadd dropout dropped
    dtod dtoh dtrsm dual dump dwconv dynamic eagle edge elect elem element elements elementwise elemwise embed
    embedding embeddings embs encode encoded encoder engine engines entropy epilogue erfc erfinv estimate
    exact exchange exclusive execute expand expanded expert experts explicit exponential extend extended extra
    factor fast features fence fetch fill fillbuffer filter filters final finalize find finder finish first
    fixed flag flags flash flashattention flashattn flashattnfwd flashinfer flashmla flatten flex flip float
    floor flops fmha focal fold foreach forward fprop frac fragment frame frequencies fully funcs function
    functor fuse fused fusion fwdspatial gamma gated gates gather gaussian geglu gelu gelutanh gemm gemmbf
    gemmk gemv gemvx generalized generate generation generic geqrf getrf getrs global grad gradient gradients
    gram grid group grouped grouping groupnorm groups groupwise gumbel hadamard half hardshrink hardsigmoid
    hardswish hardtanh hash head heads heap helper hgemm hidden hinge hipcub hist histogram hmma hopper hswish
    htoa htod htoh hybrid hyper identity igemm image imcol imma impl implicit implicitgemm include inclusive
    increment increments index indexed indexer indice indices inductor inference infinity init initialize
    inner innermost inplace input inputs insert instance instancenorm integer integral intensity interior
    internal internode interpolate intersect intranode inverse invoke invoked iota iter iteration jagged join
    kdequantize kepler kernel kernels kldiv kquantize kreduce krnl kvcache labels lambda laplace large lars
    last latency launch launcher layer layered layernorm layernormd layers layerscale layout leaky leftover
    legacy length lengths lerp less level liger lightning limits linear linearize linspace lion list load
    local logical logit logits logsoftmax logsumexp long lookahead lookback lookup loop lora loss lowbit lower
    lowlatency lstm machete magma main make mamba manual mapping marlin mask masked masks match matmul
    matrices matrix matvec maxblock maximum maxpool maxwell mbtopk mean medium memcpy memeffattention memory
    memset merge merged message metadata microscaling minimum minmax mish mixed mixer mixture mkldnn mlops
    mode modulate moment moments momentum monolithic mrope mscclpp mtgp multi multiblock multicast multihead
    multimem multinomial multiplicative multiply multiprocess mxfp naive namespace native nccl nchw nchwc
    nchwtonhwc ncsp nearest negate negative neighbor newton nhwc nhwctonchw node nodim noncontiguous none
    nonfused nonpersistent nonzero norm normal normalization normalize normalized notify nspc nvfp nvjet nvls
    nvlstree nvshmem objective offset offsets onednn oneshot onesweep opaque operator optimized optimizer
    ordered other others outer outermost output overflow overlap pack packed padded padding page pageable
    paged pages pair pairwise parallel params partial partials partition partitioned pascal pass path peer
    percol permutation permutations permute permuted permutes permuting persist persistent phase philox
    pingpong pinned pipe pipeline pipelined pivot pixel place plain planar pointer pointwise policy pool
    pooled pooler pooling population position positional positions post postfix postgsu postprocess potrf
    power precision precomputed prefill prefix prelu premulsum prepare preprocess preprocessing presort
    previous prior probs process processing prod product project projection propagate proposal pruning ptop
    pull push pytorch qgemm quant quantization quantize quantized quantizer queue quick radix radixsort ragged
    randn random range ranges rank rasterize rearrange recat reciprocal recompute record recover recovered
    recurrent recv redistribute reduce reduced reducescatter reduct reduction reference refill reflection
    region register regs rejection relative release relu remap remove renorm renormalize reorder repack repeat
    replication reset reshape residual resize resolution resolve results retrieve reverse reversed revert ring
    rmsd rmsnorm rmsnormd rocblas rocclr rocprim roialign roipool roll rope rotary rotate round rounding route
    router routing rows rowwise rrelu rsqrt runlength running safe sample sampled sampler sampling saxpy
    sbtopk scal scalar scalars scale scaled scales scaling scan scatter score scores scudnn sdot sdpa
    searchsorted segment segmented select selected selection selective selfattn selu semi send sequence serial
    series sgemm sgemv sgemvx sgmv shadow shapes shard shared shift shifted shrink shuffle sigmoid sign signal
    silu silumul simple simplified simt sincos single singleblock singleread singletile sinh size skinny skip
    slice sliced slide sliding slot slots small smem smooth smoothed smoothl smoothquant snapshot soft softcap
    softmax softmaxbackward softmaxforward softmin softplus softshrink solve solver sort sorted sorting source
    sparse sparsemax sparsity spatial spatialconv speculative spherical split splitk splitkreduce splitkv
    splits splitting spmm spmv sqrt square ssyrk stack stage staged stages staggered standalone starts static
    statistics stats status step steps stochastic stop storage store straight strategy stream streamk stride
    strided stridedb strsm subgroup subtile subtiles subtract subwarp summation sums sumsq superblock swap
    sweep swiglu swish switch swizzle symbolic symm symmetric sync syncbn syrk system table tables tail tall
    tanh target targets task temp temperature template tensile tensor tensormap tensormaps tensorop tensors
    tensorwise term terminate thread threads threshold tile tiled tiles tilesize timestep timesteps token
    tokens topk topp topped total tracking train training trampoline transform transformed transformer
    translate transpose transposed traverse tree treeattn triangle triangular tril trilinear triton triu trsm
    trsv trtllm trunc truncate tuned turing twiddle twoshot type typed types uint unaligned unary unbatched
    unbiased undo unfold unfused unidirectional unified uniform uniforms union unique universal unnamed unpack
    unpadded unpermute unpermuted unpool unroll unrolled unscale unsorted unstable upcast update updated upper
    upsample using valid value values variable variance varlen varseq vecload vector vectorised vectorize
    vectorized verify view views virtual vllm volta volume vote wait warp warped warpgroup warpgroupsize warps
    warpspecialized wave weight weighted weights welford wgmma wgrad where whole wide width window windows
    winner winograd winogradforward wise with without wmma workgroup workspace wrap write xdlops xlogy xmma
    xnor xsoftmax zero zeropoint zeros zgemm zipped
    """.split()  # noqa: SIM905 (a list of quoted words is unreadable)
)
"""Words of four letters and more in the kernel names of torch, NVIDIA's and AMD's libraries, oneDNN, Triton's and of
serving and training libraries. Names of kernels are made of these, of SHORT_KERNEL_WORDS and of numbers."""

SHORT_KERNEL_WORDS = frozenset(
    """
    a abs acc act add alg all amp amx and any asm aux avg avx awq b bag bce bin bit bmm bn bw bwd c cam cat
    cdf cel cgh cnn col cos cpu crf csr cta ctc cub d db dim div dk dot dq dv dw dx elu end ep eq erf exp f
    fft fma fp fw fwd gcn ge gn gqa gru gsu gt h hwc ids idx im in ind inf int inv iou ipc ir isa ixs jit k
    key kkt kv kvs l le ll ln log lr lrn lse lt lu lut m map mat max mha min mix mla mlp mm moe mqa mse mul mv
    n nan nd ne neg nk nll nms nn not ns nt nz of off one op ops opt or out pad per pos pow pre ptr put q qk
    qkv qr qv r rd ref rho rms rng rnn roi rot row rs s sdp seq set sgd shm sin sm sp sqr ssd ssm std sub sum
    svd swa sym t tan tma tn to top tr tt tv two up upd use val var vec wgt wkv wrw ws wt wu wx wy xdl xor zip
    zp
    """.split()  # noqa: SIM905
)
"""Shorter ones, which may stand beside a word of KERNEL_WORDS."""

KERNEL_FAMILY_LIBRARIES = frozenset(
    {"aiter", "aotriton", "apex", "aten", "bitsandbytes", "ck", "ck_tile", "cub", "cublas", "cuda", "cudnn", "cufft",
     "curand", "cusolver", "cusparse", "cutlass", "deepep", "deepgemm", "deepseek", "deepspeed", "exllama",
     "fastertransformer", "fbgemm", "fla", "flash_attn", "flash_mla", "flashinfer", "fmha", "liger", "lmdeploy", "magma",
     "mamba", "migraphx", "miopen", "natten", "nccl", "nvshmem", "onnxruntime", "quack", "raft", "rocblas", "rocclr",
     "rocprim", "sglang", "spconv", "symm_mem", "tensile", "thrust", "thunderkittens", "torch_geometric", "torchao",
     "torchaudio", "torchvision", "transformer_engine", "triton", "triton_kernels", "trtllm", "unsloth", "vllm",
     "xformers"}
)  # fmt: skip
"""What a family of kernels may begin with: the library that owns them (profiling/kernel_rules.py)."""

KERNEL_FAMILY_TAGS = frozenset(
    {"f64", "f32", "tf32", "bf16", "f16", "f8", "f4", "i8", "c64", "c128", "nn", "nt", "tn", "tt"}
)
"""What may follow: types of elements, and which operands of a product are transposed."""
