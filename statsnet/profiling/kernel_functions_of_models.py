"""Functions of the libraries that models are trained and served with, as patterns (see `kernel_functions`)."""

from __future__ import annotations

OF_MODELS: dict[str, str] = {
    "fbgemm": r"""
        (?:split|dense|ssd)_embedding\w* (?:split_)?(?:batch_|weighted_)?(?:un)?weighted_embedding\w*
        \w*_embedding_(?:nobag_|vbe_)?(?:codegen|backward|forward)_\w+
        (?:split_)?embedding_(?:nobag_|vbe_)?(?:backward|forward|codegen)\w* bounds_check_indices_kernel\w*
        linearize_(?:cache_)?(?:index|indices)\w*
        permute_(?:1D|2D|pooled|sparse|embs|lengths|indices|multi|duplicate)\w* (?:int_)?nbit_\w*
        \w*int_nbit_split_embedding\w* recat_copy_async_kernel (?:_)?(?:block_)?bucketize_\w* lru_\w*cache\w*
        lfu_\w*cache\w* lxu_cache\w* direct_mapped_\w*cache\w* emulate_cache\w* masked_index_put\w*
        jagged_(?:to|dense|index|softmax|1d|2d|jagged|slice|flash)\w* dense_to_jagged\w* stacked_jagged\w*
        keyed_jagged\w* group_index_select\w* batch_index_select_dim0\w*
        batched_(?:unary|dense_vec|complete_cumsum)\w* reorder_batched_\w* cat_reorder_\w* generate_vbe_metadata\w*
        grad_mean\w*_kernel find_long_segments _?(?:get_FP8_qparam|compute_FP8_quantize|compute_8bit)\w*
        _?(?:float|half|bfloat16|fused8bitrowwise|fusednbitrowwise|FP8rowwise|paddedFP8rowwise|hfp8)_to_\w*
        _offsets_range_cuda_kernel offsets_range\w* pack_segments\w* invert_permute\w* pruned_\w*lookup\w*
        histogram_binning\w* segment_sum_csr\w* split_(?:lookup|backward|forward)\w* zipf\w* block_bucketize\w*
        f8f8bf16\w* f8i4\w* bf16i4\w* quantize_fp8\w* _kernel_(?:quantize|dequantize|matmul|scale)_fp8\w*
        _fbgemm_grouped_gemm\w*
        """,
    "triton_kernels": r"""
        _finalize_matmul\w* _topk_(?:forward|backward) _combined_routing(?:_compute|_memset|_fused)?
        _routing_(?:compute|clear|memset)\w* _sum_bitmatrix_(?:rows|memset)\w* _bitmatrix_\w*
        _expt_data_(?:memset|compute)\w* _compute_(?:writeback_idx|indx|expt_data|hist)\w*
        _(?:down|up)cast_(?:to|from)_mxfp\w* _reduce_grouped _masked_compaction _swiglu(?:_fn)? _reduce_forward
        _reduce_kernel _sum_combined_bitmatrix\w* _convert_dp_to_ep _convert_ep_to_dp
        """,
    "vllm": r"""
        fused_moe_kernel(?:_gptq_awq)? kernel_unified_attention_[23]d reduce_segments _copy_page_indices_kernel
        merge_attn_states_kernel reshape_and_cache_kernel_flash\w* reshape_and_cache_\w* concat_and_cache_\w*
        _?(?:bgmv|sgmv|lora)_(?:expand|shrink)(?:_slice)?_?\w*kernel\w* _fused_moe_lora\w*
        (?:single_query_cached_kv|paged_attention)_\w* awq_(?:gemm|dequantize)_kernel scaled_mm_kernel
        _w8a8_(?:block_)?(?:triton_)?(?:block_scaled|fp8|int8)_\w*
        (?:sample_recovered_tokens|rejection_(?:greedy|random)_sample|expand|eagle_\w*|_topk_topp|_gumbel_sample|_temperature|_penalties(?:_and_temperature)?|_bincount|_topk_log_softmax|_ranks|_min_p|_bias)_kernel
        batched_triton_kernel count_expert_num_tokens _silu_mul_fp8_quant_deep_gemm _count_expert_num_tokens
        (?:gptq_)?[Mm]arlin(?:_\w*)? (?:fused_add_)?rms_norm\w*_kernel\w* (?:batched_)?rotary_embedding_kernel\w*
        (?:silu|gelu|act|gelu_tanh|swiglu\w*|fatrelu)_and_mul\w*kernel\w* act_and_mul_kernel activation_kernel
        topk(?:Gating)?[sS]oftmax\w* topkGating\w* moe(?:Softmax|TopK|Sigmoid)\w* grouped_topk_fused\w*
        moe_align_block_size\w* moe_sum_kernel count_and_sort_expert_tokens\w* sgl_moe_align\w*
        (?:scaled|dynamic_per_token|static_scaled|dynamic_scaled|per_token|segmented_max_reduction)_?\w*(?:fp8|int8|quant)\w*
        cvt_fp16_to_fp4\w* per_token_group_quant\w* copy_blocks_kernel
        (?:swap|gather|indexer_k_quant|cp_gather)_\w*cache\w* cross_device_reduce_[12]stage\w* LLGemm1 wvSplitK\w*
        wvSplitKQ\w* gemm_half_q_half\w* reconstruct_\w*kernel make_sequential_kernel shuffle_kernel
        gptq_\w*repack_kernel awq_marlin_repack_kernel dequantize_block\w* mul_mat_\w* quantize_q8_1\w* moe_q\w*
        moe_wna16_gemm_kernel apply_repetition_penalties_kernel convert_(?:fp8|req)_\w* mrope_\w*kernel
        _triton_(?:mrope|qwen2vl_mrope)_forward advance_step_\w* selective_scan_fwd_kernel dynamic_quant\w*
        topKPerRow\w* fusedQKNormRope\w* paged_attention_ll4mi_\w* _fwd_kernel(?:_alibi|_inner|_stage[12]|_v2)?
        _fwd_grouped_kernel_stage1 _compute_slot_mapping\w* _prepare_(?:pos|inputs|prefill|eagle)\w*
        _gather_block_tables_kernel _post_update_kernel _(?:correct|combine)_attn_cp_\w*kernel
        _zero_kv_blocks_kernel compute_identity_kernel _per_token_group_\w* batch_memcpy_kernel
        """,
    "sglang": r"""
        create_(?:flashinfer|flashmla|chunked)_\w* write_req_to_token_pool_triton\w* compute_position_kernel
        assign_(?:req_to_token_pool|extend_cache_locs|draft_cache_locs|new_state\w*)\w* get_num_kv_splits_triton
        get_last_loc\w* alloc_(?:extend|decode)_kernel set_mla_kv_\w* get_mla_kv_\w*
        _?fused_(?:rmsnorm|dual_residual_rmsnorm|softcap|moe_router\w*|rope|experts)_?\w*kernel\w*
        _per_token_quant_(?:int8|fp8)
        _fwd_kernel_(?:flash_decode_stage[12]|ep_scatter_[12]|ep_gather|without_lora\w*)
        moe_align_block_size_stage[1-4]
        (?:deepep|gateup|silu_and_mul|pre_reorder|post_reorder|compute_(?:src2dst|seg_indptr|masked_m|m_range|problem_sizes)|run_moe_ep|grouped_gemm_triton|per_tensor_quant|moe_ep)\w*(?:kernel|triton)\w*
        _?silu_and_mul_post_(?:per_tensor_)?quant_kernel store_kv_?cache\w*
        (?:clamp_position|resolve_future_token_ids|build_tree_kernel|verify_tree_greedy|tree_speculative\w*|align_evict_mask\w*|filter_finished\w*|generate_draft\w*|fill_(?:accepted|new_verified)\w*)\w*
        tree_speculative_sampling\w* _?(?:fp8|int8)_scaled_mm\w* biased_grouped_topk\w* moe_fused_gate_kernel\w*
        per_tensor_absmax_kernel per_token_quant_fp8\w* FusedAddRMSNormKernel RMSNormKernel\w* BatchQKApplyRotary\w*
        _?chunked_(?:lora|sgmv)\w*kernel _sgemm_lora_[ab]_kernel _qkv_lora_b_kernel _gate_up_lora_b_kernel
        _embedding_lora\w* copy_all_layer_kv_cache\w* transfer_(?:kv|page|item)\w*kernel\w* router_gemm_kernel\w*
        dsv3_\w*gemm\w* fused_a_gemm_kernel qserve_\w* dense_kernel0 merge_state\w*kernel act_quant_kernel
        _act_quant_kernel fp8_index_kernel weight_dequant_kernel _?fp8_(?:gemm|paged_mqa)\w* lightning_attention_\w*
        fast_topk\w* topk_transform\w*
        """,
    "flashinfer": r"""
        (?:Batch|Single)?(?:Prefill|Decode)With\w*Kernel\w* BatchMLA\w* PersistentVariableLengthMergeStates\w*
        VariableLength\w* MergeState\w* (?:TopK|TopP|TopKTopP|MinP)\w*Kernel\w* AppendPagedKVCache\w* RadixTopK\w*
        SamplingFrom\w*
        """,
    "trtllm": r"""
        fmhaSm\w*
        (?:trtllm|kernel_mha|masked_multihead_attention|xqa|applyBiasRope\w*|moe_?(?:finalize|expand|permute|topk)\w*|finalizeMoeRouting\w*|expandInputRows\w*|computeStrides\w*|doActivation\w*|routingIndices\w*|routingMain\w*|quantize_with_block_size|block_scale_\w*|allreduce_fusion\w*|twoshot_\w*|oneshot\w*lamport\w*|(?:lamport|userbuffers)_\w*)\w*
        """,
    "deepgemm": r"""
        (?:sm\d+_)?(?:m_grouped_|k_grouped_)?(?:fp8|bf16|fp4|tf32)_(?:\w*_)?(?:gemm|einsum|mqa_logits|hc_prenorm)\w*
        (?:transpose_)?(?:and_)?pack_fp32_into_ue8m0 transpose_fp32 smxx_\w* fp8_(?:paged_)?mqa_logits\w*
        """,
    "deepep": r"""
        (?:internode|intranode|low_latency)_?(?:dispatch|combine|notify)\w*
        (?:cached_)?notify_(?:dispatch|combine)\w* get_dispatch_layout clean_low_latency_buffer
        """,
    "fla": r"""
        (?:chunk|fused_recurrent|fused_chunk|parallel|recompute|prepare|solve_tril|merge_\d+x\d+_to|fwd_recompute|attn|path|nsa|bsa|kda|gla|gdn|rwkv\w*|delta_?net|gated_delta\w*|fused_sigmoid_gating\w*|fused_gdn_gating|fused_kda)_\w*(?:kernel|fwd|bwd)\w*
        l2norm_(?:fwd|bwd)_kernel\d? (?:layer_norm|rms_norm|group_norm)_(?:gated_)?(?:fwd|bwd)_(?:1pass_)?kernel\d*
        fused_gdn_gating_kernel logsigmoid_(?:fwd|bwd)_kernel softmax_(?:fwd|bwd)_kernel
        fused_(?:cross_entropy|kl_div|layer_norm|norm_gate)\w*
        """,
    "mamba": r"""
        _(?:bmm_chunk|chunk_cumsum|chunk_state|chunk_scan|state_passing|selective_scan_update|selective_state_update|causal_conv1d)\w*kernel\w*
        _?causal_conv1d_\w*kernel\w* selective_scan_(?:fwd|bwd)_kernel _layer_norm_fwd_1pass_kernel chunk_scan\w*
        ssd_\w*kernel
        """,
    "liger": r"""
        liger_\w+
        _?(?:rms_norm|layer_norm|group_norm|swiglu|geglu_tanh|block_rms_norm|softmax_single_block|softmax_multi_block|jsd|kldiv|tvd|dyt|poly_norm|sparsemax)_(?:forward|backward|fwd|bwd)_?(?:kernel|triton|inplace_kernel)\w*
        _triton_rope _triton_(?:qwen2vl_)?mrope element_mul_kernel _?grpo_loss_\w*kernel _jsd_kernel
        _tvd_distance_kernel _kldiv_kernel_\w*
        """,
    "unsloth": r"""
        _rope_embedding\w* _(?:rms|gemma_rms)_layernorm_(?:forward|backward)
        _(?:chunked_)?cross_entropy_(?:forward|backward) _fg_kernel _DWf_DW_dfg_kernel
        _(?:exact|approx)_(?:forward|backward)_kernel layernorm_(?:forward|backward)
        _grouped_gemm_(?:forward|dX|dW)_kernel
        """,
    "triton": r"""
        _attn_(?:fwd|bwd)(?:_inner|_preprocess|_dkdv|_dq|_tma|_ws)*
        _(?:sampled_addmm|bsr_strided_(?:dense_rowspace|addmm)|bsr_softmax|bsr_strided_dense_rowspace)_kernel
        matmul_kernel(?:_persistent|_tma\w*|_descriptor\w*|_make_tensor_desciptor|_with_block_pointers)?
        grouped_matmul_kernel mx_fp_matmul_kernel block_scaled_matmul_kernel matmul_tma_\w*
        flex_(?:attention|decoding)\w* _scaled_mm_kernel _fp8_matmul\w* _grouped_gemm_\w*kernel _int8?_matmul\w*
        softmax_kernel layer_norm_kernel seeded_dropout
        """,
    "torchao": r"""
        triton_(?:quantize|scale|mm|int)\w*_(?:fp8|int8|int4|mx)\w* (?:to_)?mxfp[48]_\w* _cast_\w*_to_(?:fp8|mx)\w*
        _triton_(?:fp8|int8|int4|mx)\w* scaled_int8_mm\w* fp_?lib\w* _quantize_\w*fp8\w*
        """,
    "transformer_engine": r"""
        (?:cast|transpose|cast_transpose|dgated|dact|gated_act|fused_rope|thd_\w*|multi_padding|multi_unpadding|swizzle_\w*|amax|quantize_mxfp8|cast_mxfp8|nvfp4|block_scaled_1d|block_scaled_cast\w*|row_col_rht\w*|unary|dbias)_?\w*kernel\w*
        (?:rmsnorm|ln)_(?:fwd|bwd)_(?:tuned|general|finalize)\w*kernel\w*
        (?:moe|permute|unpermute|fused_(?:topk|score|moe_aux)\w*)_\w*kernel fused_softmax\w*
        scaled_(?:aligned_causal_|masked_|upper_triang_(?:masked_)?)?softmax_warp_\w* userbuffers_\w*
        kuserbuffers_\w* vectorized_pointwise_kernel nvte_\w*
        """,
    "apex": r"""
        (?:ln|rms)_(?:fwd|bwd)_(?:kernel|finalize_kernel|tuned\w*|general\w*) cuApply(?:Layer|RMS)Norm\w*
        cuWelford\w* welford_kernel\w* syncbn_\w*
        (?:batchnorm|reduce_bn|relu_bw|relu_fw|nhwc_batch_norm)_?\w*(?:c_last|kernel|fwd|bwd)\w*
        multi_tensor_(?:scale|axpby|l2norm|lamb|adam|sgd|novograd|adagrad)\w* lamb_stage\w*
        distributed_(?:adam|lamb)\w* fused_dense\w* biasAddRelu\w* biasAdd_\w* joint_\w* transducer\w* fused_rope\w*
        cunn_SoftMaxXEntropy\w* additive_masked_softmax\w* masked_softmax_(?:warp|dropout)\w* dropout_add_\w*
        (?:u|du)?_?(?:generic_)?group_norm_nhwc\w* focal_loss\w* index_mul_2d\w*
        """,
    "deepspeed": r"""
        (?:fused_)?(?:bias|residual)_(?:gelu|relu|add|geglu|residual|act)\w* apply_rotary_pos\w* attn_softmax\w*
        fused_ln\w* fused_residual_ln\w* (?:inference|ds)_\w+kernel\w* ln_(?:lngamma|bw)\w* LayerNormBackward\w*
        fused_bias_residual_layer_norm\w* column_sum_reduce dropout_kernel\w* gated_act_\w* top_k_gating\w*
        moe_(?:scatter|gather)_kernel swizzled_quant_kernel dequant_reduce cached_quantization quantize_kernel
        dequantize_kernel kv_rotary_pos_kernel flash_attn_by_atoms\w* blocked_\w*
        """,
    "bitsandbytes": r"""
        k(?:Quantize|Dequantize|Optimizer|Precondition|Percentile|Estimate|Histogram|Get|Double|Transform|Spmm|Int8|dequant|_?gemm|gemm|gemv|func|Compress|ExtractOutliers|_fp)\w*
        kgemm_4bit_inference(?:_naive)? quantize_blockwise_\w* dequantize_(?:4bit|blockwise)_\w*
        """,
    "torchvision": r"""
        (?:roi_align|roi_pool|ps_roi_align|ps_roi_pool|RoIAlign|RoIPool|PSROIAlign|PSROIPool)\w* nms_kernel\w*
        deformable_(?:im2col|col2im)\w* ms_deform(?:able)?_\w* ms_deformable_\w*
        """,
    "exllama": r"""
        (?:gemm_half_q_half|q4_matmul|q4v2_matmul|reconstruct|column_remap|rope_cuda|half_matmul)\w*(?:kernel)\w*
        awq_gemm_\w* gemm_forward_4bit_\w* dequantize_weights gemv_kernel_g\d+ awq_gemv\w*
        """,
}
