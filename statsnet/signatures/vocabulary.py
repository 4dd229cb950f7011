"""The words that a signature may hold. A library's public name may be added, never a user's."""

from __future__ import annotations

import re

OP_NAMESPACES = frozenset(
    {"aten", "prims", "inductor", "inductor_prims", "rngprims", "mkl", "mkldnn", "mkldnn_prepacked",
     "onednn", "quantized", "_quantized", "quantized_decomposed", "sparse", "c10d", "c10d_functional",
     "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor", "fsdp", "torch_nn"}
)  # fmt: skip
"""Operator namespaces of torch itself."""

OPAQUE_OP = "custom.opaque.default"
"""Stands for every operator of another namespace: a customer's own."""

OPS_WITH_EFFECTS = frozenset({"from_file", "save", "load", "load_tensor", "warn", "_print", "print", "annotate"})
"""Operators that reach beyond tensors, to files or the terminal. No signature holds them."""

OPTIMIZERS = frozenset(
    {"adadelta", "adafactor", "adagrad", "adam", "adamw", "adamax", "asgd", "lamb", "lars", "lbfgs", "lion",
     "muon", "nadam", "radam", "rmsprop", "rprop", "sgd", "sgdmomentum", "sparseadam",
     "custom"}
)  # fmt: skip
"""Optimizers by lower-case name without underscores; `custom` stands for a customer's own."""

CPU_KERNEL_WORDS = frozenset(
    """
    a all amx any aten avx axpy batch bf bfloat blas bnorm brdgmm brg brgconv brgemm bwd concat conv core cpu d deconv
    direct dot dw eltwise f ff fp fwd gelu gemm gemmt gemv ger group i img inner int int8 ip ipt isa ivb jit kernel
    layer lnorm lrn matmul nchw ncsp nhwc nspc output pack plain pool prelu ref reduction reorder resampling rnn s scal
    sgemm shuffle simple softmax sse strided sum symm symv syr syrk trmm trmv trsm trsv tr uni vnni wei winograd x xf u
    acl aarch sve asimd cgemm dgemm zgemm hgemm igemm sgemv dgemv cgemv zgemv sdot ddot saxpy daxpy snrm dnrm compute
    packed get free alloc as omatcopy imatcopy getrf getrs getri potrf potrs potri geqrf orgqr ormqr gesv gesdd gesvd
    fft heev heevd syev syevd geev gels gelsd gelsy trtrs trtri cdotc cdotu zdotc zdotu
    """.split()  # noqa: SIM905
)
"""Words of oneDNN's implementations and of MKL's routines, as their logs write them, without digits. Before a routine
may stand the letter of its type."""

KERNEL_NAMES = frozenset({"aten", "none", "unknown", "unnamed", "opaque"})

OPAQUE_KERNEL = "opaque"
"""Stands for a kernel whose name is not recognised."""

KERNEL_WORDS = frozenset(
    """
    able absmax accepted accum accumulate accumulated activation activations adafactor adagrad adam adamw
    adaptive addition additive addmm addr addrms adjacent adjust advance affine agent aiter alibi align
    aligned alignment allgather alloc allocate allreduce alpha amax ampere anchors angle anonymous aotriton
    apex append apply approx arange arch argmax argmin arlin array assign asum asymmetric async aten atoh
    atomic atoms attention attn autotune average avgpool axpby axpy back backpropagation backward backwards
    balance balancing banded barrier batch batched batchnorm batchnormalization bernoulli beta bfloat bgemm
    bgmv bgrad bias biased bicubic bidirectional bilateral bilinear binary bincount binning binop bins bitmask
    bitmatrix bitonic bitsandbytes blackwell blend block blockdim blocked blocks blockscale blockwise
    bluestein bnbw bnfw bnorm bool boolean bounds bprop brdgmm brgconv brgemm broadcast broadcasting bucket
    bucketize buckets buffer build bytes cache cached calculate calib carry cascade cast casting causal cdist
    ceil cell cgemm cgemv channel channels channelwise check chol cholesky choose chunk chunked chunkwise cijk
    clamp class classification clean cleanup clear clip cluster cnhw coalesce coalesced codebook codegen codes
    collect collective collnet column columns colwise combine combined compact compaction comparator compare
    compile complete complex composite compress compressed compressor compute concat concatenate cond conj
    conjugate constant context contig contiguous conv convd convert convolution convolve cooperative coords
    copy copybuffer core corr correct correlation cosine count counting covariance cpasync create criterion
    cross cublas cublaslt cuda cudnn cufft cumm cumprod cumsum cumulate cumulative cunn curand cusolver
    cusparse cutlass cutlassb cutlassf cyclic dact data dbias decode decoder decoding deconv deconvolution
    deepep deepgemm deepseek deepspeed deform deformable delta dense depthwise dequant dequantize desc
    desciptor descriptor deterministic device dgated dgelu dgemm dgemv dgrad dgradw diag diagonal diff dilated
    direct direction directional dispatch dispatched dist distance distributed distribution distributions
    divide dkdv double doublequant down downcast dqkv draft drop dropadd dropout dropped dtod dtoh dtrsm dual
    dump duplicate dwconv dynamic eagle edge einsum elect elem element elements elementwise elemwise embed
    embedding embeddings embs empty emulate encode encoded encoder engine engines entropy entry epilogue erfc
    erfinv estimate evict exact exchange exclusive execute exllama expand expanded expert experts explicit
    exponential expt extend extended extra extract factor fast fatrelu fbgemm feature features fence fetch
    fill fillbuffer filter filters final finalize find finder finish finished first fixed flag flags flash
    flashattention flashattn flashattnfwd flashinfer flashmla flatmm flatten flex flip float floor flops fmha
    fmoe focal fold foreach forward fprop frac fractional fragment frame frequencies fully func funcs function
    functor fuse fused fusednbitrowwise fusion future fwdspatial gamma gate gated gates gateup gather gating
    gaussian gcgemm geglu gelu gelutanh gemm gemmbf gemmk gemv gemvx general generalized generate generated
    generation generic geometric geqr geqrf gesvdj getrf getri getrs global gptq grad gradient gradients gram
    greedy grid gridwise group grouped grouping groupnorm groups groupwise grpo gtsv gumbel hadamard half
    hardshrink hardsigmoid hardswish hardtanh hash head heads heap helper hemm herk hermitian hgemm hidden
    hinge hipblas hipblaslt hipcub hist histogram hmma hopper host hswish htoa htod htoh hybrid hyper iamax
    identity ifft igemm image imcol imma impl implicit implicitgemm include inclusive increment increments
    index indexed indexer indexing indice indices indptr inductor indx inference infinity init initialize
    inner innermost inplace input inputs insert instance instancenorm integer integral intensity interior
    internal internode interpolate intersect intranode inverse invert invoke invoked iota item iter iteration
    jagged join joint kdequantize kepler kernel kernels keyed kgemm kldiv kquantize kreduce krnl kuserbuffers
    kvcache label labels lacpy lamb lambda lamport laplace larf larfg larft large largek lars laset last
    lastdim laswp latency launch launcher layer layered layernorm layernormd layers layerscale layout leaky
    left leftover legacy length lengths lerp less level liger lightning limits linear linearize linspace lion
    list lmdeploy lngamma load local logical logit logits logsigmoid logsoftmax logsumexp long lookahead
    lookback lookup loop lora loss lowbit lower lowlatency lpnorm lstm machete magma magmablas main make mamba
    manual mapped mapping margin mark marlin mask masked masks match matmul matrices matrix matvec maxblock
    maximum maxpool maxwell mbtopk mean median medium memcpy memeffattention memory memset merge merged
    message metadata mfma microscaling minimum minmax miopen mish mixed mixer mixture mkldnn mlopen mlops mode
    modern modifier modulate moment moments momentum monolithic moving mrope msccl mscclpp mtgp multi
    multiblock multicast multihead multimem multinomial multiplicative multiply multiprocess mxfp naive
    namespace native natten nbit nccl ncell nchw nchwc nchwtonhwc ncsp nearest negate negative neighbor
    neighborhood nested newton nhwc nhwctonchw nobag node nodim noncontiguous none nonfused nonpersistent
    nonzero noquant norm normal normalization normalize normalized notify novograd nspc nvfp nvjet nvls
    nvlstree nvshmem nvte objective offset offsets onednn oneshot onesweep opaque operator optimized
    optimizer ordered other others outer outermost outliers output outputs overflow overlap pack packed padded
    padding page pageable paged pages pair pairwise parallel params part partial partials partition
    partitioned pascal pass passing path pdist peer penalties percentile percol permutation permutations
    permute permuted permutes permuting persist persistent phase philox pingpong pinned pipe pipeline
    pipelined pivot pixel place plain planar pointer pointers pointwise poisson policy poly pool pooled pooler
    pooling population position positional positions post postfix postgsu postprocess potf potrf power
    precision precompute precomputed precondition prefill prefix prelu premulsum prenorm prepare preprocess
    preprocessing presort previous prior probs process processing prod product profile project projection
    propagate proposal pruned pruning pseudo psroi ptop pull push pytorch qgemm qparam quack quant
    quantization quantize quantized quantizer queue quick radius radix radixsort ragged randn random randperm
    range ranges rank ranks rasterize read real rearrange recat reciprocal recompute reconstruct record
    recover recovered recurrent recv redistribute reduce reduced reducescatter reduct reduction reference
    refill reflection region register regs regular rejection relative release relu remap remove renorm
    renormalize reorder repack repeat repetition replication representation rescale reset reshape residual
    resize resolution resolve results retrieve reverse reversed revert right ring rmsd rmsnorm rmsnormd
    rocblas rocclr rocprim rocsolver roialign roipool roll rope rotary rotate round rounding route router
    routing rows rowspace rowwise rrelu rsqrt rule runlength running safe sample sampled sampler sampling
    saxpy sbtopk scal scalar scalars scale scaled scales scaling scan scatter score scores scudnn sdot sdpa
    searchsorted seed seeded seek segment segmented segments select selected selection selective selfattn selu
    semi send sequence sequenced sequential serial series setmatrix sgemm sgemv sgemvx sglang sgmv shadow
    shapes shard shared shift shifted shot shrink shuffle sigmoid sign signal silu silumul simple simplified
    simt simulate sincos single singleblock singleread singletile sinh size sizes skinny skip slice sliced
    slide sliding slot slots slow small smallk smem smooth smoothed smoothl smoothquant smxx snapshot soft
    softcap softmax softmaxbackward softmaxforward softmin softplus softshrink solve solver sort sorted
    sorting source sparse sparsemax sparsity spatial spatialconv spconv speculative spherical split splitk
    splitkreduce splitkv splits splitting spmm spmv spspmm sqrt square ssyrk stack stacked stage staged stages
    staggered standalone starts state states static statistics stats status step steps stochastic stop storage
    store straight strategy stream streamk stride strided stridedb strides strsm subgroup subtile subtiles
    subtract subwarp summation sums sumsq superblock swap sweep swiglu swish switch swizzle swizzled syevj
    symbolic symm symmetric symv sync syncbn syrk system table tables tail tall tanh target targets task tbsv
    temp temperature template templated tensile tensor tensormap tensormaps tensorop tensors tensorwise term
    terminate thnn thread threads threshold thrust tile tiled tiles tilesize timestep timesteps tinygemm token
    tokens topk topp topped torch torchao torchvision total tpsv tracking train training trampoline trans
    transducer transfer transform transformed transformer translate transpose transposed traverse tree
    treeattn triang triangle triangular tril trilinear triton tritonflashattn triu trmm trmv trsm trsv trtllm
    trunc truncate tuned tuple turbomind turing twiddle twoshot type typed types uint unaligned unary
    unbatched unbiased undo unfold unfused unidirectional unified uniform uniforms union unique universal
    unnamed unpack unpadded unpadding unpermute unpermuted unpool unroll unrolled unscale unsloth unsorted
    unstable unweighted upcast update updated upper upsample userbuffers using valid value values varargs
    variable variance varlen varseq vecload vector vectorised vectorize vectorized verified verify view views
    virtual vllm volta volume vote wait warp warped warpgroup warpgroupsize warps warpspecialized wave weight
    weighted weights welford wgmma wgrad where whole wide width window windows winner winograd winogradforward
    wise with without wmma workgroup workspace wrap write writeback xdlops xform xformers xlogy xmma xnor
    xorwow xsoftmax zero zeropoint zeros zgemm zipf zipped
    """.split()  # noqa: SIM905 (a list of quoted words is unreadable)
)
"""Words of four letters and more in the kernel names of torch, NVIDIA's and AMD's libraries, oneDNN, Triton's and of
serving and training libraries. Names of kernels are made of these, of SHORT_KERNEL_WORDS and of numbers."""

SHORT_KERNEL_WORDS = frozenset(
    """
    a abs acc act brg add alg all amp amx and any asm aux avg avx awq b bag bce bin bit bmm bn bw bwd c cam cat
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

OP_WORDS = frozenset(
    """
    aa absolute acceptable acl acos acosh addbmm addcdiv addcmul addmv adjoint ai airy alias allclose
    alltoall along amin aminmax arccos arccosh arcsin arcsinh arctan arctanh args argsort argwhere
    arithmetic as asin asinh assert asynchronous atan atanh atleast atol auto autocast autograd available
    axis baddbmm bartlett base bessel bf binomial bitwise blackman bsc bsr byte cachemask can cartesian
    cauchy cbrt ccol celu center chain chalf char chebyshev choice circular clone collapse combination
    combinations comp compatible consecutive constrain contention coo copysign corrcoef correction cosh
    counts cov crow csc cslt ct cts cummax cummaxmin cummin cvt debug decimals default deg dep deprecated det
    detach diagflat differentiable digamma dilation dims dirichlet draw dsplit dstack dtype dtypes dummy
    dyn e eager edges eff efficient efficientzerotensor eig eigenvalues eigh eigvals eigvalsh elemt entr
    enum equal erfcx errors euclidean ex example except expit expm eye fake fallback ff fftfreq fftn
    fftshift file finite fix fliplr flipud floating fmax fmin fmod for force format fq fresh frexp
    frobenius from full functional gammainc gammaincc gammaln gcd generator ger get glu greater hamming
    hann has he heaviside hermite hfft hfftn histc histogramdd hot householder hsplit hspmm hstack huber
    hypot i iand ifftn ifftshift igamma igammac ihfft ihfftn ilshift imag infinitely info interface
    interleave intlist into ints ior irecv irfft irfftn irshift is isclose isend isfinite isin isinf isnan
    isneginf isposinf isreal istft ixor j jvp kaiser kl kn kron kthvalue laguerre lanczos lazy lcm ldexp
    ldl leaf learnable legendre legit lexsort lfu lgamma lift like linalg logaddexp logcumsumexp logdet
    logspace low lp lru lshift lstsq lxu math md mem mesh meshgrid meta miss mkl modified monitored
    moveaxis movedim mps msg msort multigammaln multilabel mvlgamma nanmean nanmedian nanquantile nansum
    narrow nbytes ndtr ndtri new nextafter nnpack nnz no noise non nr nuclear num numel numpy obs ones
    online only ord order orgqr ormqr overrideable p periodic physical pin pinv pinverse plan plus point
    points polar polygamma polynomial populate positive powsum prepack prepacked primal print promote
    prune ps psi py qadd qbatch qconv qlinear qmul qparams qscheme quantile qweight rad rand randint
    ranking ravel rceil rcond reinterpret remainder remote rendezvous repr requires reserve response
    result retain retains rev rfft rfftfreq rfftn root rshift rsub rtol run same saturate scalararray
    scalarint scalarrayarray scalarrayint scramble search sections seeds selecting self seqlen serialized
    sgn shallow shape short signbit signed similarity sinc sink slogdet smm sobol spdiags special spsolve
    squeeze src sspaddmm stable standard start stft str structured supported svdvals swapaxes swapdims
    take tbc tensorarray tensorarrayint tensordot tensorinv tensorsolve tol trace trapezoid trapz triplet
    true u unbind unflatten unpacked unsafe unshuffle unsqueeze uvm v validate vander vbe vdev
    vdot vecdot vectorwise version vsplit vstack vulkan w wrapped x xla xlog y zerotensor zeta
    """.split()  # noqa: SIM905
)
"""Words of operators' names and overloads in OP_NAMESPACES that are in neither list of kernels' words."""

KERNEL_FAMILY_LIBRARIES = frozenset(
    {"aiter", "aotriton", "apex", "aten", "bitsandbytes", "ck", "ck_tile", "cub", "cublas", "cuda", "cudnn", "cufft",
     "curand", "cusolver", "cusparse", "cutlass", "deepep", "deepgemm", "deepseek", "deepspeed", "exllama",
     "fastertransformer", "fbgemm", "fla", "flash_attn", "flash_mla", "flashinfer", "fmha", "liger", "lmdeploy",
     "magma", "mamba", "megatron", "migraphx", "miopen", "natten", "nccl", "nvshmem", "onnxruntime", "quack", "raft",
     "rocblas", "rocclr", "rocprim", "sage_attention", "sglang", "spconv", "symm_mem", "tensile", "thrust",
     "thunderkittens", "torch_geometric", "torchao", "torchaudio", "torchvision", "transformer_engine", "triton",
     "triton_kernels", "trtllm", "unsloth", "vllm", "xformers"}
)  # fmt: skip
"""What a family of kernels may begin with: the library that owns them (profiling/kernel_rules.py)."""

KERNEL_FAMILY_TAGS = frozenset(
    {"f64", "f32", "tf32", "bf16", "f16", "f8", "f4", "i8", "c64", "c128", "nn", "nt", "tn", "tt"}
)
"""What may follow: types of elements, and which operands of a product are transposed."""


def words(text: str) -> list[str]:
    """Lower-case words of letters: `CatArrayBatchedCopy_128x64` -> cat, array, batched, copy, x."""
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)]
