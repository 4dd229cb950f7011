"""Families of GPU kernels: every public library's names are recognised, and nothing private passes."""

from __future__ import annotations

import gzip
import json
import os
import string
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.profiling.kernel_families import kernel_family
from statsnet.profiling.kernel_names import parse
from statsnet.profiling.kernel_rules import BASES, NAMESPACES
from statsnet.signatures.public_names import safe_kernel
from statsnet.signatures.vocabulary import KERNEL_FAMILY_LIBRARIES

MOST_OPAQUE = 0.01

FAMILIES = {
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, std::array<char*, 3> >"
    "(int, at::native::CUDAFunctor_add<c10::Half>, std::array<char*, 3>)": "aten:vectorized_elementwise:f16",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)":
        "aten:cat_array_batched_copy:f32",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>(float*)":
        "aten:softmax_warp_forward:f32",
    "ampere_sgemm_128x64_nt": "cublas:gemm:f32:nt",
    "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn": "cublas:gemm:f16:nn",
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_relu_f2f_stages_64x3_tn": "cublas:gemm:bf16:tn",
    "volta_dgemm_64x64_nn": "cublas:gemm:f64:nn",
    "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize32x32x8_stage3_execute_kernel__5x_cublas":
        "cublas:xmma_gemm:tf32:tn",
    "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_kernel_cudnn":
        "cudnn:xmma_fprop_implicit_gemm:f16",
    "sm80_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize64x128x32_stage5_tensor16x8x16_aligna2_execute_kernel_trt":
        "tensorrt:xmma_gemm:f16:nn",
    "sm80_xmma_sparse_gemm_f16f16_f16f32_f32_tt_t_stage3_sptensor16x8x32_execute_kernel_5x_cusparselt":
        "cusparse:xmma_sparse_gemm:f16:tt",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_alignc4_execute_kernel__5x_cudnn":
        "cudnn:xmma_fprop_implicit_gemm:tf32",
    "acme_sm80_xmma_gemm_f32f32_f32f32_f32": "opaque",
    "acme_2x_sm80_xmma_gemm_f32f32_f32f32_f32": "opaque",
    "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTN": "cublas:nvjet_gemm:f16:nt",
    "nvjet_sm100_qqtst_128x128_128x6_1x2_h_bz_TNT": "cublas:nvjet_gemm:f8:tn",
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16>(T1)":
        "cublas:gemv:bf16",
    "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_tn_align8>(Params)":
        "cutlass:cutlass_gemm:f16:tn",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align1>(Params)":
        "cutlass:cutlass_gemm:tf32:nn",
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32_64x128_nhwc_align4>(Params)":
        "cudnn:cutlass_wgrad:tf32",
    "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwdSm90<cutlass::bfloat16_t>>>(Params)":
        "flash_attn:attention_backward:bf16",
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": "cudnn:convolution_winograd:f32",
    "_5x_cudnn_ampere_scudnn_128x32_relu_xregs_large_nn_v1": "cudnn:convolution_fprop:f32",
    "kernel_paged_attention_2d": "vllm:paged_attention",
    "Im3d2Col": "miopen:im_col",
    "void wgrad2d_grouped_direct_kernel<float, float>(int)": "cudnn:wgrad_grouped_direct:f32",
    "memcpy32_post": "cuda:memcpy",
    "memset32_aligned1D": "cuda:memset",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float>(int)": "cudnn:nchw_to_nhwc:f32",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_128x128x64": "cudnn:attention:f16",
    "fmha_cutlassB_bf16_aligned_64x64_k64_sm80(Params)": "xformers:attention_backward:bf16",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "nccl:all_reduce_sum_ring_ll:bf16",
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)": "nccl:generic",
    "triton_poi_fused_add_relu_0": "triton:pointwise",
    "triton_red_fused_native_layer_norm_12": "triton:reduction",
    "triton_per_fused__softmax_3": "triton:persistent_reduction",
    "triton_tem_fused_addmm_relu_t_2": "triton:template_gemm",
    "triton_tem_fused_flex_attention_1": "triton:template_attention",
    "triton__0d1d2d3de": "triton:inductor",
    "Cijk_Alik_Bjlk_HHS_BH_MT128x128x32_MI32x32x8x1_SN": "tensile:gemm:f16:tt",
    "Cijk_Ailk_Bljk_SB_MT64x64x16_SN": "tensile:gemm:f32:nn",
    "MIOpenBatchNormBwdSpatial": "miopen:batch_norm_bwd_spatial",
    "igemm_wrw_gtcx3_nhwc_fp16_bx0_ex1_bt64x64x64": "miopen:igemm_wgrad:f16",
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_4GemmE":
        "ck:conv_fprop",
    "void cub::CUB_200200_800_900_NS::DeviceScanKernel<int>(int)": "cub:device_scan",
    "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)": "vllm:rms_norm:bf16",
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::Half>::exists, void>::type "
    "vllm::fused_add_rms_norm_kernel<c10::Half, 8>(c10::Half*)": "vllm:fused_add_rms_norm:f16",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu": "triton:matmul_swiglu:bf16",
    "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_TN_transOut": "trtllm:bmm:f4:tn",
    "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*)": "bitsandbytes:dequantize_blockwise:bf16",
    "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensorptrbf16gmemo1":
        "flash_attn:attention:bf16",
    "kernel_cutlass_kernel_quackgemm_actGemmGatedSm90_object_at__tensorptrbf16": "quack:gemm_gated:bf16",
    "kernel_cutlass_kernel_flashinfernormkernelsfused_add_rmsnormFusedAddRMSNormKernel_object_at__tensorptrbf16gmem":
        "flashinfer:fused_add_rms_norm:bf16",
    "mfma_moe1_silu_mul_afp8_wfp4_fp8_t128x256x256_pm1_fp8q_sort_async_gui_v32": "aiter:moe_gemm:f4",
    "_gemm_a8w8_blockscale_kernel_GROUP_K_128_GROUP_N_128_BLOCK_SIZE_M_128_EVEN_K_1_cache_modifier_CG": "aiter:gemm",
    "_multimem_reduce_scatter_residual_add_kernel": "megatron:multimem_reduce_scatter_residual_add",
    "void <unnamed>::silu_mul_quant_varlen_kernel<(bool)1, (bool)0>(Params)": "sglang:silu_mul_quant_varlen",
    "void smxx::decode::flash_fwd_mla_combine_kernel<cutlass::bfloat16_t, (int)512>(Params)":
        "flash_mla:flash_fwd_mla_combine:bf16",
    "split_embedding_codegen_forward_unweighted_kernel": "fbgemm:split_embedding_codegen_forward_unweighted",
    "loop_multiply_add_fusion_12": "xla:loop_fusion",
    "gemm_fusion_dot_general_5_0": "xla:gemm_fusion",
    "wrapped_convert": "xla:fusion",
    "triton_": "triton:inductor",
    "triton_fused_add_relu_3": "triton:inductor",
    "void causal_conv1d_channellast_fwd_kernel<Traits<128, c10::BFloat16>>(ConvParamsBase)":
        "mamba:causal_conv_fwd:bf16",
    "_moe_sum_reduce_kernel": "sglang:moe_sum_reduce",
    "void ball_query_forward_cuda_kernel<float>(int)": "mmcv:ball_query_forward:f32",
    "void rocsparse::csrmvn_general_kernel<256u, float>(int)": "rocblas:general:f32",
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<(int)128, (int)64> >(Flash_bwd_params)":
        "flash_attn:flash_bwd_dq_dk_dv",
    "void primus_turbo::deep_ep::intranode::combine<hip_bfloat16, 8, 1024>(hip_bfloat16*)": "primus:combine:bf16",
    "_v4_csa_attention_pool_fwd_kernel": "primus:csa_attention_pool_fwd",
    "gluon_kda_paged_prefill_state_scan_gfx950.kd": "tokenspeed:gluon_kda_paged_prefill_state_scan",
    "_build_flashinfer_mixed_sparse_indices_kernel": "vllm:build_flashinfer_mixed_sparse_indices",
    "__myl_SiluMul_myl0_4": "tensorrt:myelin",
    "trt_volta_h884cudnn_256x64_ldg8_relu_exp_medium_nhwc_tn_v1": "cudnn:convolution_fprop:f16",
    "void mul_mat_q<(ggml_type)12, 128, 8, false>(char const*, int const*)": "ggml:mul_mat",
    "void tensorflow::BiasNCHW_SharedAtomics<float>(int, float const*)": "tensorflow:bias_nchw_shared:f32",
    "void CUTENSOR_NAMESPACE::permutationKernelPLC3<float>(int)": "cutensor:permutation:f32",
    "void masked_scale_softmax_warp_backward_masked_dgrad<__half, float, float, 9, false>(__half*)":
        "apex:masked_scale_softmax_warp_backward_dgrad:f16",
    "kernel_cutlass_device_kernel_tensorptrbf16gmemalign16o9616512div85121": "cutlass:other",
    "Memcpy HtoD (Pageable -> Device)": "cuda:memcpy_htod",
    "Memset (Device)": "cuda:memset",
    "__amd_rocclr_copyBuffer.kd": "rocclr:copy",
}  # fmt: skip


@pytest.mark.parametrize(("name", "family"), FAMILIES.items())
def test_the_families_of_public_kernels(name: str, family: str) -> None:
    assert kernel_family(name) == family
    assert safe_kernel(family) == family


@pytest.mark.parametrize(
    "name",
    [
        "acme_ranker_kernel", "void acme::fused_attention<float>(float*)", "acme_splitKreduce_kernel", "my_gemm",
        "ranker_kernel_0d1d2de", "mm_acme_gemm", "", " ", "kernel", "_ZN4acme6rankerEv", "_ZN", "Cijk",
        "chunk_ranker_fwd_kernel", "gemm",
        "void (anonymous namespace)::secret_ranker<at::native::reduce_kernel>(int)", "parallel_ranker_kernel",
        "::", "<<>>(",
        "customers_own_secret_kernel", "permute_rankers_kernel", "fused_moe_gpt5_fwd_kernel",
        "xai_kda_decode_kernel_v42", "mkl::anything_at_all", "batched_swiglu_ranker_kernel",
        "kernel_cutlass_kernel_acmerankerRankKernel_object_at__tensorptrbf16", "acme_ranker_kernel_BLOCK_SIZE_M_128",
        "void acme::_multimem_reduce_scatter_residual_add_kernel<float>(float*)",
        "_gemm_kernel", "_vectorized_elementwise_kernel", "_nms_kernel", "loop_ranker_fusion_3", "ranker_fusion",
        "wrapped_ranker",
        "gluon_acmeranker_prefill_gfx950", "__myl_acme", "kernel_cutlass_device_kernel_acme_ranker", "fast_acme_kernel",
        "cross_entropy_kernel", "_swiglu_backward_kernel_flat", "_gather_rows_kernel", "compute_expert_offsets",
    ],
)  # fmt: skip
def test_what_no_public_library_owns_is_opaque(name: str) -> None:
    assert kernel_family(name) == "opaque"


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("triton_poi_fused_acme_ranker_0", "triton:pointwise"),
        ("at::native::vectorized_elementwise_kernel<4, acme::RankerFunctor<float>>", "aten:vectorized_elementwise:f32"),
        ("void vllm::acme_ranker_kernel<float>(float*)", "vllm:other:f32"),
        ("void cutlass::device_kernel<acme::RankerGemm<float>>(Params)", "cutlass:gemm:f32"),
        ("ampere_sgemm_acme_128x64_nn", "cublas:gemm:f32:nn"),
        ("Cijk_Ailk_Bljk_SB_ACME_ranker", "tensile:gemm:f32:nn"),
        ("ncclDevKernel_acme_Ranker", "nccl:other"),
        ("sparse_causal_rotary_attention_kernel", "aten:sparse"),
        ("gluon_mla_rankers_prefill_gfx950", "opaque"),
        ("__myl_AcmeRankerMul_myl0_4", "tensorrt:myelin"),
        ("void Eigen::internal::EigenMetaKernel<acme::Ranker<float>, long>(int)", "eigen:internal:f32"),
    ],
)
def test_of_a_public_name_with_private_words_only_the_public_ones_survive(name: str, family: str) -> None:
    assert kernel_family(name) == family


SYLLABLES = st.sampled_from(["quor", "zim", "flax", "drev", "yolp", "brix", "gorm", "snee"])
PRIVATE = st.lists(SYLLABLES, min_size=2, max_size=4).map("".join)


@given(
    PRIVATE, PRIVATE, st.sampled_from(["{0}_{1}", "void {0}::{1}<float>(int)", "{0}_kernel", "_{0}_fwd_kernel_0d1d2"])
)
def test_private_names_are_opaque(first: str, second: str, form: str) -> None:
    assert kernel_family(form.format(first, second)) == "opaque"


FORMS = (
    "void at::native::{}_kernel<{}>(int)", "void cutlass::Kernel2<{}::{}>", "triton_red_fused_{}_{}", "nvjet_tst_{}_{}",
    "ncclDevKernel_{}_{}", "sm90_xmma_gemm_{}_{}", "Cijk_Ailk_Bljk_{}_{}", "fmha_{}_{}", "void vllm::{}<{}>()",
    "_ZN4vllm8{}E{}", "MIOpen{}{}", "igemm_fwd_{}_{}", "volta_sgemm_{}_{}", "bmm_E4m3_{}_t128x16_{}",
)  # fmt: skip


@given(PRIVATE, PRIVATE, st.sampled_from(FORMS))
def test_no_private_word_survives_in_a_public_name(first: str, second: str, form: str) -> None:
    family = kernel_family(form.format(first, second))
    assert first not in family and second not in family
    assert safe_kernel(family) == family


@given(st.text(alphabet=string.ascii_letters + string.digits + "_:<>(), ", max_size=80))
def test_every_name_has_a_family_that_may_be_shared(name: str) -> None:
    assert safe_kernel(kernel_family(name)) == kernel_family(name)


def test_long_names_end_in_linear_time() -> None:
    assert kernel_family("void at::native::f<" + "<" * 100_000) == kernel_family("void at::native::f<")
    assert kernel_family("_Z" + "9" * 100_000) == "opaque"


def test_the_parts_of_a_name() -> None:
    parts = parse("void a::b<int>::(anonymous namespace)::f<x<y>, (z)3>(g<h>)")
    assert (parts.path, parts.base, parts.template) == (("a", "b"), "f", "x<y>, (z)3")
    parts = parse("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bLi256EEvPT_")
    assert (parts.path, parts.base, parts.template) == (("aiter",), "add_rmsnorm_quant_kernel", "bf16")


def test_every_library_of_the_rules_may_stand_in_a_signature() -> None:
    assert {owner.library for _, owner in (*BASES, *NAMESPACES)} <= KERNEL_FAMILY_LIBRARIES


def test_most_time_of_every_recording_has_a_family() -> None:
    folder = os.environ.get("STATSNET_SHARED_DATA")
    if not folder:
        pytest.skip("STATSNET_SHARED_DATA names no folder of recordings")
    path = Path(folder, "traces", "expected", "kernel-names.jsonl.gz")
    shares: dict[str, float] = {}
    libraries: dict[str, set[str]] = defaultdict(set)
    names: set[str] = set()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for recording in map(json.loads, lines):
            kernels = recording["kernels"]
            total = sum(k["us"] for k in kernels)
            opaque = sum(k["us"] for k in kernels if kernel_family(k["name"]) == "opaque")
            shares[recording["file"]] = opaque / total if total else 0.0
            names.update(k["name"] for k in kernels)
            libraries[recording["file"]].update(kernel_family(k["name"]).partition(":")[0] for k in kernels)
    assert len(names) == 788
    assert {file: share for file, share in shares.items() if share > MOST_OPAQUE} == {}
    assert all(safe_kernel(kernel_family(name)) == kernel_family(name) for name in names)
    assert {"aten", "cublas"} <= libraries["tracelens-h100-qwen1.5-0.5b-chat.json.gz"]
    assert "tensile" in libraries["tracelens-mi300-qwen1.5-0.5b-chat.json.gz"]
