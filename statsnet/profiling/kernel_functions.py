"""The functions of public libraries that run on a GPU and have no namespace, as patterns separated by white space.

Each is matched against the whole name of a function. The first library that fits owns it.
"""

from __future__ import annotations

from statsnet.profiling.kernel_functions_of_models import OF_MODELS

_OF_TORCH_AND_VENDORS: dict[str, str] = {
    "aten": r"""
        (?:vectorized|unrolled|legacy|index|_scatter_gather|_assert|aligned|distribution|modern)?_?elementwise_kernel\w*
        elementwise_kernel(?:_with_index|_manual_unroll|_strided\w*|_helper)? distribution_\w*elementwise\w*
        unrolled_elementwise_kernel_for_multi_outputs
        vectorized_(?:templated_elementwise|layer_norm|gather)\w*_?kernel\w* reduce_kernel index_elementwise_kernel
        multi_tensor_apply_kernel cunn_?\w* softmax_warp_(?:forward|backward) (?:cunn_)?(?:Spatial)?SoftMax\w*
        host_softmax\w* CatArrayBatchedCopy\w* stack_\w*_cuda\w* split_with_sizes_copy\w*
        indexSelect(?:Small|Large)Index index(?:Func|Add|Reduce|Copy|Fill)(?:Small|Large)?Index\w*
        index(?:ing)?_(?:put|backward|select|copy|fill|add)\w*_kernel\w* indexing_backward_kernel\w*
        gather_topk_kernel gatherTopK gatherKthValue gatherMedian radixFindKthValues radixSortKVInPlace
        bitonicSortKVInPlace warpMergeSortKVInPlace computeBlockwise\w* fill_reverse_indices_kernel
        sort_postprocess_kernel (?:fill_index_and_segment|fill_)\w*_kernel computeMode\w* compute_mode
        compute_num_of_partial_segments batch_norm_\w*_kernel\w* batch_norm_\w*
        (?:vectorized_)?(?:layer|group|rms|instance)_?norm\w*_kernel\w* (?:cu)?Compute(?:Part)?Grad\w*
        cuComputePartGradGammaBeta cuComputeGradGammaBeta GammaBeta\w* RowwiseMoments\w* Compute\w*CUDAKernel\w*
        LayerNorm(?:Forward|Backward)\w* GroupNorm\w* GammaBetaBackward\w*
        embedding_(?:backward_feature_kernel|backward_kernel|bag)\w* EmbeddingBag_\w* renorm_kernel sum_and_scatter
        compute_grad_weight\w* krn_partials?_\w* krn_partial_segment_offset compute_\w*segment\w* max_pool\w*
        avg_pool\w* adaptive_?(?:average|avg|max)_?pool\w* atomic_adaptive\w* fractional_max_pool\w* max_unpool\w*
        MaxUnpool\w* (?:MaxPool|AveragePool|AvgPool|AdaptiveAvgPool)\w* upsample_\w* UpSample\w* grid_sampler_\w*
        reflection_pad\w* replication_pad\w* nll_loss\w* ClassNLLCriterion\w* SpatialClassNLLCriterion\w*
        MultiMargin\w* MultiLabelMargin\w* ctc_loss_\w* binary_cross_entropy\w* im2col_kernel col2im_kernel
        im2col\w* col2im\w* vol2(?:col|im)\w* conv_depthwise\w* dwconv\w* spatialDepthwiseConvolution\w*
        DepthwiseConv\w* tril?u?_indices_kernel tri[lu]_kernel\w* triu_tril_kernel cross_kernel flip_kernel\w*
        roll_cuda_kernel unfold_backward\w* tensor_kernel_scan_\w* cumulate\w* scan_\w*dim\w*
        (?:inner|outer)_?\w*dim\w*scan\w* dropout_kernel\w* fused_dropout_kernel\w* masked_scale_kernel
        kernelHistogram1D kernelPointwiseApply\w* bincount\w* write_indices flag_kernel searchsorted_cuda_kernel
        cdist_\w* pdist_\w* dist_\w*kernel\w* lstm_cell_\w* gru_cell_\w* _thnn_fused\w*
        transform_bias_rescale_qkv\w* glu_backward_kernel prelu_\w* weight_norm_\w* renormRowsL1
        sampleMultinomial\w* multinomial\w* philox\w* randperm_\w* bernoulli_\w* uniform_\w*and_transform\w*
        normal_and_transform\w* amp_\w* lpnorm_cleanup cleanup (?:fused_)?(?:adam|adamw|sgd|adagrad)_\w*kernel\w*
        FusedAdam\w* fused_adam\w* batched_(?:\w+_)?(?:lu|chol\w*|inverse|triangular)(?:_\w*)?
        getri_kernel apply_\w*eye\w*
        triangular_solve\w* addr_kernel diag\w*_kernel sparse_\w*_kernel _compute_\w*nnz\w* coalesceValuesKernel\w*
        csr2?\w*_kernel row_indices\w* segment_reduce_\w* segmented?_\w*kernel int4_?\w*mm\w*
        tinygemm_m16n8k16_chunk_kernel matrix_to_m16n8k16\w* weight_int[48]pack\w* int8pack\w* unpack_\w*kernel
        _?convert_indices\w* nonzero_static\w* compute_agg write_\w*nonzero\w* chooseQ\w*
        ChooseQuantizationParams\w* MovingAverageMinMax GroupedGemm\w* prepare_grouped_gemm_data prepare_gemm_data
        rowwise_scaled\w* to_dense_representation_kernel jagged_\w* nested_\w* remove_padding\w* add_padding\w*
        chunk_cat_\w* _chunk_cat_\w* copy_kernel_\w* slow_conv\w* deformable_im2col\w*
        """,
    "symm_mem": r"""
        (?:multimem|one_shot|two_shot|stream_write|barrier|nvshmem|signal)_?(?:all_?reduce|all_?gather|one_shot|reduce_?scatter|put|get|wait|signal|value\w*|kernel)\w*
        multimem_\w* put_signal_kernel wait_signal_kernel barrier_kernel
        """,
    "cublas": r"""
        gemm(?:SN|MN|k1|N)?_?(?:[NT]{2})?_?kernel\w* gemmk1_kernel gemm_kernel\d\w* gemv(?:2[NT]|NSP|1[NT]|[NTn])\w*
        gemvx?_?kernel\w* gemv_\w* gemmSN_\w* dot_kernel reduce_1Block_kernel splitKreduce_kernel splitK_?reduce\w*
        scal_kernel\w* asum_kernel\w* nrm2_kernel\w* axpy_kernel\w* iamax_kernel\w*
        (?:ger|syr2?k?|symv|symm|hemm|trmm|trmv|trsm|trsv|tpsv|tbsv|spr|rot)_?(?:kernel|batch|left|right|ln|lt|un|ut|lower|upper)\w*
        (?:batch_)?tr(?:sm|sv)_\w* transpose_readWrite_alignment_kernel kernel_trsm\w* globalKernel
        epilogue_?bgrad\w* cublas[A-Z]\w* bgrad\w*_kernel\w* [sdczh]?gemm_(?:largek|smallk|tall|warp)\w*
        (?:s|d|c|z|h|i)gemm_\d+\w* (?:simt|hmma|imma)\w*gemm\w* matmul_fp8_\w*block\w*
        """,
    "cusolver": r"""
        (?:ge|or|po|sy|he|un)(?:qrf|trf|trs|brd|vd|qr2|mqr|gqr|vj|tri|trd)\w*
        (?:batched_|xx|kernel_)?(?:getrf|potrf|geqrf|larft|larfg|laswp|syevj|gesvdj)\w* potrf\w*
        """,
    "cufft": r"""
        (?:vector|regular|composite_\dway|multi_bluestein|bluestein)_fft\w* regular_bluestein\w*
        (?:preprocess|postprocess)(?:C2C|R2C|C2R)?_kernel\w* (?:r2c|c2r)_\w*kernel\w* fft_rtc_\w*
        (?:fft|ifft|bluestein)_(?:fwd|back|inv)\w*_len\d+\w* transpose_(?:kernel_)?\w*len\d+\w*
        (?:real2complex|complex2hermitian|complex2real|hermitian2complex)\w*
        """,
    "curand": r"""
        generate_seed_pseudo\w* gen_sequenced init_?(?:philox|xorwow|mrg|mtgp)\w*
        generate_(?:normal|uniform|poisson)\w*
        """,
    "cusparse": r"""
        csr(?:mv|mm|gemm)_?\w*kernel\w* (?:csr|coo|bsr)(?:mm|mv|sv|sort|2\w+)\w* load_balancing_kernel
        partition_kernel spmm_\w* gtsv\w*
        """,
    "cudnn": r"""
        (?:implicit|explicit|precomputed)_convolve\w* (?:wgrad|dgrad)_?(?:alg\d|engine|nd|depthwise)\w*
        (?:wgrad|dgrad|fprop)_alg\w* (?:dgrad|wgrad|fprop)\w*_engine\w*
        (?:nchw|nhwc|nchwTo|nhwcTo|NCHW)\w*To?(?:Nhwc|Nchw|nhwc|nchw)\w*Kernel\w*
        (?:nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw)\w* fft2d_[cr]2[cr]\w* fft1d_\w* compute_gemm_pointers
        flip_filter transpose_filter im2col4d_kernel cgemm\w*_kernel gcgemm\w* (?:conv|dgrad|wgrad)2d_c1_k1\w*
        winograd\w* generateWinogradTiles\w* (?:bn_(?:fw|bw)_(?:tr|inf)?|bn_\w*?_1C11)\w* batchNorm\w* bnfw\w*
        bnbw\w* op_tensor\w* op_generic_tensor\w* pooling_(?:fw|bw)_\w* softmax_(?:fw|bw)_\w*
        activation_(?:fw|bw)_\w* lrn\w*_(?:fw|bw)\w* add_tensor_kernel\w* scale_?(?:Packed|_packed)?_?[Tt]ensor_?\w*
        scalePackedTensor_kernel (?:RNN|rnn|LSTM|GRU)_(?:block|elementWise|elemWise|persist)\w*
        (?:elemWiseRNN|persistRNN|LSTM_elementWise|GRU_elementWise)\w* persistRNN\w* dropout_(?:fp|bp)\w*
        conv(?:olution)?_?(?:depthwise|2d_grouped|1x1|nd)?_?(?:direct|grouped)\w*(?:_kernel|engine)\w* dw_?conv\w*
        dwconv2d\w* (?:first|second)Layer\w* computeOffsetsKernel\w* compute\w*OffsetsKernel\w* (?:cudnn|CUDNN)_?\w*
        kern_precompute_indices cudnn_generated_\w* reduce_wgrad\w* bias_?(?:grad|act)?_?kernel_\w*nhwc\w*
        convertTensor\w* ReduceSplitK\w* tensorTransformGeneric\w* xmma_trans\w* transformTensor\w* volta\w*
        kernel_conv_filter_modifier_\w* sm\d+_xmma_\w*
        """,
    "cutlass": r"""
        cutlass_\w*
        """,
    "magma": r"""
        magma_?[sdczh]?\w*(?:gemm|gemv|trsm|trmm|syrk|potrf|getrf|geqrf|laswp|lacpy|larf|lds128|setmatrix|getri|symm|herk)\w*
        magmablas_\w*
        (?:[sdcz])(?:gemm|getf2|potf2|larf|laswp|lacpy|laset|geqr2|trsm)_?(?:kernel|batched|small|native|fused|column)\w*
        """,
    "flash_attn": r"""
        flash_(?:fwd|bwd)_\w* Flash_(?:fwd|bwd)\w* compute_(?:attn|dq_dk_dv|dot_do_o)\w* flash_fwd_splitkv_\w*
        fmha_(?:fwd|bwd|fprop|dgrad)\w* device_flash\w* convert_dq_kernel\w* rotary_kernel
        cross_entropy_(?:fwd|bwd)_kernel _layer_norm_(?:fwd|bwd)_(?:1pass_)?kernel\w*
        _(?:fwd|bwd)_(?:kernel_one_col_block|preprocess_do_o_dot)\w* swiglu_(?:fwd|bwd)_kernel
        """,
    "flash_mla": r"""
        flash_(?:fwd_splitkv_)?mla\w* get_mla_metadata_kernel flash_fwd_mla_combine_kernel
        sparse_(?:prefill|decode|attn)_?(?:fwd)?_kernel
        """,
    "xformers": r"""
        attention_kernel(?:_backward)?_batched\w* _fwd_kernel_splitK\w* _splitK_reduce(?:_varargs)?\w*
        _bwd_splitK\w* k_index_select_cat_\w* k_scaled_index_add\w* k_swiglu\w* tritonflashattn\w*
        """,
    "aotriton": r"""
        attn_fwd\w* bwd_kernel_(?:dk_dv|dq|fuse)\w* bwd_preprocess\w* attn_bwd\w* debug_(?:fill|simulate)\w*
        tuned_(?:attn|bwd)\w*
        """,
}

_OF_OTHERS: dict[str, str] = {
    "thrust": r"""
        _kernel_agent parallel_for_kernel __?parallel_for\w*
        """,
    "cub": r"""
        Device(?:RadixSort|Scan|Reduce|Select|Segmented|Partition|RunLength|Histogram|Merge|Compact|UniqueByKey|Adjacent|Transform|BatchMemcpy|For|TopK|Spmv|BatchCopy)\w*
        EmptyKernel static_kernel ForEach\w*Kernel
        """,
    "rocprim": r"""
        trampoline_kernel
        (?:onesweep|radix_sort|block_sort|scan|lookback|init_lookback|reduce_by_key|merge|partition|transform|histogram|segmented)_\w*kernel\w*
        """,
    "nccl": r"""
        nccl\w+ (?:all_?reduce|all_?gather|reduce_?scatter)_(?:ll|ring|tree)\w* mscclKernel\w*
        """,
    "rocblas": r"""
        rocblas_\w+ ROCBLAS_\w+ (?:hipblas|hipblaslt)\w+ rocsolver_\w+
        """,
    "miopen": r"""
        MIOpen\w+ miopen\w+ mlo\w+ mlopen\w+ batched_transpose_\d\w* SubTensorOp\w* Op\dD?Tensor\w* OpTensor\w*
        (?:Op\d+d|Op)Tensor\w* gridwise_\w+ naive_conv_\w+ Im2d?2?Col\w* Im2Col\w* Col2Im\w* gcnAsm\w+
        conv\d+x\d+[uw]\w* conv_?(?:ck|hip)_\w* transpose_(?:NCHW2CNHW|CNHW2NCHW|packed)\w*
        (?:general_)?tensor_reorder_\w* xform\w* (?:bwd|fwd)?_?[Ww]inograd\w* Softmax(?:Forward|Backward)
        BatchNorm\w* LSTM\w*MIOpen\w* static_kernel_gridwise\w* cast_tensor\w* SetTensor\w* ScaleTensor\w*
        sp3_?Asm\w* dynamic_\w*gridwise\w* (?:Cast|Scale|Set|Copy)Tensor\w* sp3AsmConv\w*
        (?:Layernorm|Groupnorm|RMSnorm|T5Layernorm|Sum|Cat\d?|Argmax|GLU|Pooling|Reduce\w*|Prelu)(?:Fwd|Bwd)\w*
        """,
    "aiter": r"""
        aiter_\w+ fmoe_\w+
        (?:fmha_(?:fwd|bwd)_hd|mla_(?:a16|a8|pfl|dec|reduce|kernel)|pa_(?:bf16|fp16|noquant|a16|ps)|bf16gemm_|f4gemm_|i8gemm_|fp8gemm_|flatmm_|asm_)\w*
        _?(?:batched_)?gemm_(?:a16_?w16|a8_?w8|afp4wfp4|a8wfp4|a16wfp4|a16w8|a8w4)\w*
        _moe_(?:gemm|mxfp4|sorting|topk|a8w8)\w*
        _?fused_(?:qk_rope|qkv|kv_cache|rms_(?:fp8|mxfp4)|mul_add|flatten|reduce|gemm|rms_gated|silu|qk_norm|add_rms|rope)\w*
        _(?:rmsnorm|layernorm|fused_add_rmsnorm|quant_rms_norm|dynamic_(?:per_token|mxfp4)|static_per)\w*kernel\w*
        _?mla_(?:decode|prefill)\w* _paged_attn_decode\w* pa_decode\w* paged_attention_\w* _rope_\w*kernel\w*
        add_rmsnorm\w*kernel wv_splitk\w* hgemm_\w* dynamic_per_(?:token|group)_\w*quant\w* kn_(?:entry|get|mla)\w*
        topk_softplus\w* MoeSorting\w* moe_fused_gate\w* opus_moe\w* allreduce_fusion\w*
        reduce_scatter_cross_device\w* (?:local_device_load|cross_device)_\w* all_?gather_lastdim\w*
        """,
    "natten": r"""
        (?:na[123]d|natten)_\w* neighborhood_\w*
        """,
    "nvshmem": r"""
        nvshmem\w* barrier_on_stream_kernel\w*
        """,
    "lmdeploy": r"""
        turbomind_\w*
        """,
    "torch_geometric": r"""
        segment_(?:csr|coo|gather)\w*kernel scatter_(?:arg_)?kernel spmm_(?:arg_)?kernel segment_matmul\w*
        grouped_matmul\w* spspmm\w* fps_kernel knn_kernel radius_kernel rw_\w*kernel uniform_sampling_kernel
        cumsum_\w*kernel
        """,
    "spconv": r"""
        (?:spconv|cumm|tv)_\w*
        """,
}

FUNCTIONS: dict[str, str] = {**_OF_TORCH_AND_VENDORS, **OF_MODELS, **_OF_OTHERS}
"""Patterns by library, in the order in which they are tried."""
