"""Published tables: each format is recognised by its columns, and says what an operator takes on which device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from device_tables import gemm_rows, plain_table, write_table

from statsnet.devices.operator_work import item_bytes
from statsnet.devices.tables.reading import read_all
from statsnet.devices.tables.row import TableRow
from statsnet.errors import FileFormatError, StatsNetError, UsageError

NEUSIGHT = """op,dims,device,latency_us,n_measured,kernel
linear,1x512x1024x256,H100-SXM-80GB,50,1,sgemm
linear,1x512x1024x256,A100-PCIe-40GB,80,1,sgemm
bmm,16x64x32x48,H100-SXM-80GB,12,1,sgemm
conv,8x3x64x7x224x2x3,P100-PCIe-16GB,900,1,winograd
addu,1024x512,MI100,20,1,elementwise
ln,1024x512,MI100,30,1,norm
"""
AIC = "gemm_dtype,m,n,k,h100_sxm,l40s,x900_sxm\nbfloat16,64,128,256,5.5,6.5,7.5\nfp8,64,128,256,4.5,,\n"
DECODE = (
    "attn_dtype,kv_cache_dtype,head_dim,window_size,batch_size,isl,step,num_heads,num_key_value_heads,h100_sxm\n"
    "bfloat16,fp8,128,0,4,1,1023,32,8,11\nbfloat16,bfloat16,128,0,2,512,0,32,8,40\n"
)
DEEPBENCH = """suite,op,direction,dtype,dims,device,latency_us,algorithm
train,gemm,fwd,fp32,1760x16x1024_TN,V100,44,
train,conv,bwd_weight,fp32,28x14x32x8x64x5x3x2x1x2x1,V100,70,
train,lstm,fwd,fp16_mixed,512x16x25,V100,800,
"""
MIOPEN = (
    "layout,dtype,direction,groups,N,C,H,W,K,fh,fw,Ho,Wo,ph,pw,sh,sw,dh,dw,gfx908-120CU,gfx90a-110CU\n"
    "NCHW,FP32,F,1,4,3,224,224,64,7,7,112,112,3,3,2,2,1,1,100:21,80:3\n"
    "NCHW,FP32,B,1,4,64,112,112,3,7,7,224,224,3,3,2,2,1,1,200:21,\n"
)
VIDUR = (
    "model,n_embd,n_head,n_kv_head,n_expanded,vocab,gated,tp,num_tokens,op,a100,h100\n"
    "m,4096,32,8,11008,32000,True,2,64,attn_pre_proj,50,30\nm,4096,32,8,11008,32000,True,2,64,input_layernorm,6,4\n"
)


def only(rows: Sequence[TableRow], **wanted: str) -> TableRow:
    (row,) = (r for r in rows if all(getattr(r, k) == v for k, v in wanted.items()))
    return row


def test_each_format_is_recognised_by_its_columns(tmp_path: Path) -> None:
    texts = [NEUSIGHT, AIC, DECODE, DEEPBENCH, MIOPEN, VIDUR]
    for i, text in enumerate(texts):
        write_table(tmp_path, f"{i}.csv{'.gz' if i % 2 else ''}", text)
    rows = read_all([tmp_path]).rows
    assert {r.source for r in rows} == {"neusight", "aiconfigurator", "deepbench", "miopen", "vidur"}
    linear = only(rows, source="neusight", operator="gemm", variant="NT bias")
    assert linear.time_s == {"nvidia-h100-sxm": pytest.approx(50e-6), "nvidia-a100-pcie-40gb": pytest.approx(80e-6)}
    assert dict(linear.dims) == {"batch": 1, "m": 512, "n": 1024, "k": 256}
    assert dict(only(rows, source="neusight", operator="convolution").dims)["stride_h"] == 2
    assert only(rows, operator="add").variant == "scalar"
    decode, prefill = only(rows, operator="attention_decode"), only(rows, operator="attention_prefill")
    assert dict(decode.dims)["kv_len"] == 1024 and decode.variant == "kv fp8"
    assert dict(prefill.dims)["q_len"] == dict(prefill.dims)["kv_len"] == 512
    projection = only(rows, source="vidur", operator="gemm")
    assert dict(projection.dims) == {"batch": 1, "m": 64, "n": (16 + 2 * 4) * 128, "k": 4096}


def test_aiconfigurators_own_files_have_one_device_and_milliseconds(tmp_path: Path) -> None:
    head = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
    text = head + "VLLM,0.20.0,NVIDIA H100 80GB HBM3,gemm,default,bfloat16,64,128,256,0.0055\n"
    own, collected = (
        read_all([write_table(tmp_path, *file)]).rows for file in (("gemm_perf.txt", text), ("a.csv", AIC))
    )
    assert own[0].key == collected[0].key
    assert own[0].time_s == {"nvidia-h100-sxm": pytest.approx(collected[0].time_s["nvidia-h100-sxm"])}


def test_a_column_that_counts_rows_is_no_device(tmp_path: Path) -> None:
    lines = AIC.splitlines()
    text = "\n".join([f"Unnamed: 0,{lines[0]}", *(f"{i},{line}" for i, line in enumerate(lines[1:]))])
    counted, plain = (read_all([write_table(tmp_path, f"{i}.csv", t)]).rows for i, t in enumerate((text, AIC)))
    assert counted == plain


def test_models_that_add_attention_and_mlp_at_once(tmp_path: Path) -> None:
    """They have one norm for both; their addition is two."""
    header, row, _ = VIDUR.splitlines()
    both = "input_layernorm", "post_attention_layernorm"
    lines = [row.replace("attn_pre_proj", op) for op in (*both, "add")]
    lines += [row.replace("m,4096", "n,2560").replace("attn_pre_proj", op) for op in (both[0], "add")]
    added = [r for r in read_all([write_table(tmp_path, "v.csv", "\n".join([header, *lines]) + "\n")]).rows
             if r.operator == "add"]  # fmt: skip
    assert {dict(r.dims)["columns"]: r.time_s["nvidia-h100-sxm"] for r in added} == {
        4096: pytest.approx(30e-6), 2560: pytest.approx(15e-6),
    }  # fmt: skip


def test_column_major_products_become_row_major(tmp_path: Path) -> None:
    row = only(read_all([write_table(tmp_path, "d.csv", DEEPBENCH)]).rows, operator="gemm")
    assert dict(row.dims) == {"batch": 1, "m": 16, "n": 1760, "k": 1024}
    assert row.variant == "NT"


def test_a_convolution_has_its_forward_dims_in_all_directions(tmp_path: Path) -> None:
    rows = read_all([write_table(tmp_path, "m.csv", MIOPEN)]).rows
    forward, backward = only(rows, direction="forward"), only(rows, direction="backward_data")
    assert forward.dims == backward.dims
    assert dict(forward.dims)["in_channels"] == 3
    assert backward.time_s == {"amd-mi100": pytest.approx(200e-6)}
    deepbench = only(read_all([write_table(tmp_path, "d.csv", DEEPBENCH)]).rows, operator="convolution")
    dims = dict(deepbench.dims)
    assert (dims["in_w"], dims["in_h"], dims["kernel_w"], dims["kernel_h"], dims["pad_w"], dims["stride_w"]) == (
        28, 14, 5, 3, 2, 2,
    )  # fmt: skip


def test_devices_of_one_table_may_lie_in_several_folders(tmp_path: Path) -> None:
    whole = read_all([write_table(tmp_path / "whole", "aic.csv", AIC)]).rows
    lines = [line.split(",") for line in AIC.splitlines()]
    left, right = (
        "\n".join(",".join([*line[:4], *line[part]]) for line in lines) for part in (slice(4, 5), slice(5, None))
    )
    a, b = write_table(tmp_path / "a", "aic.csv", left).parent, write_table(tmp_path / "b", "x.csv.gz", right).parent
    assert read_all([a, b]).rows == whole
    assert {d for r in whole for d in r.time_s} == {"nvidia-h100-sxm", "nvidia-l40s", "x900-sxm"}


def test_repeats_are_one_time(tmp_path: Path) -> None:
    text = NEUSIGHT + "bmm,16x64x32x48,H100-SXM-80GB,18,1,other\nbmm,16x64x32x48,H100-SXM-80GB,13,1,other\n"
    row = only(read_all([write_table(tmp_path, "n.csv", text)]).rows, variant="NN")
    assert row.time_s == {"nvidia-h100-sxm": pytest.approx(13e-6)}


PLAIN = "operator,dtype,device,time_ms,m,n,k,tokens\ngemm,fp16,my card,0.5,64,128,256,\nmagic,fp16,my card,0.1,,,,7\n"


def test_a_plain_table(tmp_path: Path) -> None:
    """Spaces around fields and capital letters change nothing; a word that no call asks for is told."""
    text = PLAIN.replace(",", " , ").replace("gemm", "GEMM")
    tables = read_all([write_table(tmp_path, "own.csv", text)])
    gemm, magic = tables.rows
    assert [note for note in tables.notes if "no call of torch is looked up as magic:" in note]
    assert gemm.time_s == {"my-card": pytest.approx(0.5e-3)}
    assert (gemm.dtype, dict(gemm.dims)["batch"]) == ("float16", 1)
    assert magic.dims == (("tokens", 7),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AIC.replace("m,n,k", "m,n,q"), "lacks columns of aiconfigurator, gemm\ncause: missing: k"),
        ("a,b\n1,2\n", "no table of operators"),
        ("", "no table of operators"),
        (PLAIN.replace("time_ms", "elapsed"), "no column of times"),
        (PLAIN.replace("time_ms,m", "time_ms,time_us"), "several columns of times"),
        (PLAIN.replace(",", ";"), "no table with commas\ncause: its fields are separated by semicolons"),
        (PLAIN.replace(",k,tokens", ",k,k"), "several columns k"),
        (PLAIN.replace("device", "where"), "no table of operators that is known"),
        (AIC.replace("x900_sxm", "H100-SXM-80GB"), "two columns of times of nvidia-h100-sxm"),
    ],
)  # fmt: skip
def test_tables_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write_table(tmp_path, "t.csv", text)
    with pytest.raises(StatsNetError) as error:
        read_all([path])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("device", "factors", "why"),
    [
        ("nvidia-v100", (1e3,), "nine tenths of its smallest operators take more than"),
        ("nvidia-v100", (1e-3,), "a twentieth of its times is shorter than"),
        ("acme-one", (1e-3,), "a twentieth of its times is shorter than"),
        ("acme-one", (1.0, 1e3), "of its times are more than 30 times off"),
        ("acme-one", (1.0, 1e-3), "a twentieth of its times is shorter than"),
        ("acme-one", (1.0, 5.0), ""),
        ("nvidia-v100", (0.1,), ""),
    ],
)
def test_times_in_another_unit_or_in_several(tmp_path: Path, device: str, factors: tuple[float, ...], why: str) -> None:
    """Times of products of all sizes, multiplied by each of `factors` in turn."""
    rows = gemm_rows(400, device=device)
    rows = [replace(r, time_s={device: t * factors[i % len(factors)]}) for i, r in enumerate(rows)
            for t in r.time_s.values()]  # fmt: skip
    path = write_table(tmp_path, "t.csv", plain_table(rows))
    tables = read_all([path])
    assert len(tables.rows) > 370
    assert tables.wrong.keys() == ({device} if why else set())
    if why:
        assert why in str(tables.wrong[device])
        assert any("not in the unit" in note and why in note for note in tables.notes)


@pytest.mark.parametrize(("unit_s", "is_refused"), [(1e-6, False), (1e-9, True), (1e-3, True)])
def test_large_operators_alone_tell_the_unit(tmp_path: Path, unit_s: float, is_refused: bool) -> None:
    """Products of 1 to 9 ms and point-wise operators of 0.1 ms and more on an A40, written as if in milliseconds."""
    lines = [f"gemm,fp16,A40,{(1.0 + i / 5) * 1e-3 / unit_s!r},4096,4096,{4096 + 800 * i},," for i in range(40)]
    lines += [f"gelu,fp32,A40,{0.013 * (8 + i) * 1e-3 / unit_s!r},,,,{1024 * (8 + i)},1024" for i in range(40)]
    header = "operator,dtype,device,time_us,m,n,k,rows,columns"
    path = write_table(tmp_path, "t.csv", "\n".join([header, *lines]))
    wrong = read_all([path]).wrong
    assert bool(wrong) == is_refused
    assert all("--keep-doubtful" in (error.hint or "") for error in wrong.values())


def test_float64_on_a_gpu_for_graphics_is_slow(tmp_path: Path) -> None:
    """At 0.2 TFLOP/s of the 0.25 that a T4 has."""
    sizes = [1024 + 64 * i for i in range(40)]
    lines = [f"gemm,fp64,T4,{2 * n**3 / 0.2e12 * 1e6!r},{n},{n},{n}" for n in sizes]
    path = write_table(tmp_path, "t.csv", "\n".join(["operator,dtype,device,time_us,m,n,k", *lines]))
    tables = read_all([path])
    assert {d for row in tables.rows for d in row.time_s} == {"nvidia-t4"} and not tables.wrong


def test_a_slow_device_is_not_refused(tmp_path: Path) -> None:
    text = "operator,dtype,device,time_s,m,n,k\ngemm,fp32,x,4.2,4096,4096,4096\n"
    (row,) = read_all([write_table(tmp_path, "t.csv", text)]).rows
    assert row.time_s == {"x": 4.2}


def test_damaged_files(tmp_path: Path) -> None:
    whole = write_table(tmp_path, "a.csv.gz", NEUSIGHT * 50).read_bytes()
    for name, content in (
        ("cut.csv.gz", whole[: len(whole) // 2]),
        ("flipped.csv.gz", whole[:40] + b"xxxx" + whole[44:]),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileFormatError, match=r"damaged|cannot be read"):
            read_all([tmp_path / name])
    (tmp_path / "binary.csv").write_bytes(b"\x00\xff\xfe\x80" * 20)
    with pytest.raises(FileFormatError):
        read_all([tmp_path / "binary.csv"])
    with pytest.raises(UsageError, match="not there"):
        read_all([tmp_path / "missing.csv"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no table"):
        read_all([tmp_path / "empty"])


def test_bad_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = (
        "bmm,16x64x32x48,P4,0,1,x\nbmm,16x64x32x48,T4,-3,1,x\nbmm,16x64x32x48,L4,nan,1,x\nbmm,16x64x32x48,L4,fast,1,x\n"
        "bmm,16x64,L4,5,1,x\nbmm,1x2\nlinear,1x8192x8192x8192,L4,0.001,1,x\n"
    )
    tables = read_all([write_table(tmp_path, "n.csv", NEUSIGHT + bad)])
    assert len(tables.rows) == 5
    notes = "\n".join(tables.notes)
    for text in (
        "3 values were left out: the time is zero, negative or not finite",
        "1 value was left out: the time is no number",
        "dims are not understood", "as many fields", "shorter than any device",
    ):  # fmt: skip
        assert text in notes


def test_other_tables_in_a_folder_are_named(tmp_path: Path) -> None:
    write_table(tmp_path, "n.csv", NEUSIGHT)
    write_table(tmp_path, "other.csv", "model,throughput\na,1\n")
    assert any("other.csv" in note for note in read_all([tmp_path]).notes)


LAYERS = "profiler,model,tp,layer,num_tokens,RTX3090\nv0,m,1,mlp,{},5\n"


@pytest.mark.parametrize(
    "text",
    [
        NEUSIGHT.replace("64x32x48", "64x0x48").replace("1x512x1024x256", "1x512x0x256"),
        AIC.replace("64,128,256", "64,0,256"),
        DECODE.replace(",32,8,", ",32,0,"),
        DEEPBENCH.replace("1760x16", "0x16").replace("28x14x32", "28x14x0").replace("512x16x25", "512x0x25"),
        MIOPEN.replace(",4,3,", ",4,0,").replace("1,4,64,112", "1,0,64,112"),
        VIDUR.replace("True,2,64,attn", "True,2,0,attn"),
        LAYERS.format(0),
        "operator,dtype,device,time_us,m,n,k\ngemm,fp32,x,5,4096,0,4096\n",
        "operator,dtype,device,time_us,m,n,k\ngemm,fp32,x,5,4096,4398046511104,4096\n",
        "operator,dtype,device,time_us,rows,columns\nadd,fp32,x,5,0,64\n",
        "operator,dtype,device,time_us,bytes_read\nfoo,fp32,x,5,64\n",
        f"operator,dtype,device,time_us,rows,{'c' * 81}\nfoo,fp32,x,5,1,64\n",
        f"operator,dtype,device,time_us,tokens,variant\nfoo,fp32,x,5,64,{'v' * 81}\n",
        "operator,dtype,device,time_us," + ",".join(f"d{i}" for i in range(30)) + "\nfoo,fp32,x,5" + 30 * f",{2**40}",
    ],
)  # fmt: skip
def test_sizes_and_words_that_no_operator_has_are_left_out_and_counted(tmp_path: Path, text: str) -> None:
    """In every format. A padding and a window may be 0."""
    tables = read_all([write_table(tmp_path, "t.csv", text)])
    assert all(size > 0 or name in ("pad_h", "pad_w", "window") for row in tables.rows for name, size in row.dims)
    assert any("size" in note or "characters" in note for note in tables.notes)


@pytest.mark.parametrize(
    "text",
    [
        NEUSIGHT.replace("MI100", "???"),
        AIC.replace("x900_sxm", "---"),
        DEEPBENCH.replace("TN,V100", "TN,???"),
        MIOPEN.replace("gfx908-120CU", "***"),
        VIDUR.replace(",a100", ",--"),
        LAYERS.format(64).replace("RTX3090", "--"),
        f"operator,dtype,device,time_us,m,n,k\ngemm,fp32,{'x' * 90},5,4,4,4\n",
    ],
)
def test_devices_without_a_name_are_left_out_and_counted(tmp_path: Path, text: str) -> None:
    tables = read_all([write_table(tmp_path, "t.csv", text)])
    assert any("the device's name" in note for note in tables.notes)
    assert all(device for row in tables.rows for device in row.time_s)


def test_of_an_operator_of_ours_only_its_dims_are_looked_at(tmp_path: Path) -> None:
    text = "operator,dtype,device,time_us,m,n,k,note\ngemm,fp16,x,5,7,8,9,the fast one\n"
    (row,) = read_all([write_table(tmp_path, "t.csv", text)]).rows
    assert dict(row.dims) == {"batch": 1, "m": 7, "n": 8, "k": 9}


def test_words_of_a_plain_table_in_other_spellings(tmp_path: Path) -> None:
    """Of words that are not known, times are kept and told, whatever work their dims would make."""
    lines = ["gemm,torch.bfloat16,x,5,64,64,64,nt", "gemm,FP8_E4M3,x,5,64,64,64,", "matmul,odd4,x,50,4096,4096,4096,"]
    text = "\n".join(["operator,dtype,device,time_us,m,n,k,variant", *lines])
    tables = read_all([write_table(tmp_path, "t.csv", text)])
    words = [(row.operator, row.dtype, row.variant) for row in tables.rows]
    assert words == [("gemm", "bfloat16", "NT"), ("gemm", "float8_e4m3fn", ""), ("matmul", "odd4", "")]
    assert [note.partition(":")[0] for note in tables.notes] == ["no call of torch is looked up as matmul, odd4"]


def test_rows_that_only_move_bytes_tell_the_unit(tmp_path: Path) -> None:
    lines = [f"softmax,fp32,H100,{20 + i},{8192 + i},1024" for i in range(30)]
    for unit, is_wrong in (("time_us", False), ("time_s", True)):
        text = "\n".join([f"operator,dtype,device,{unit},rows,columns", *lines])
        assert bool(read_all([write_table(tmp_path, "t.csv", text)]).wrong) == is_wrong


def test_a_plain_table_is_nobody_elses(tmp_path: Path) -> None:
    """No column lends its times another source's name."""
    text = "operator,dtype,device,time_us,tokens,source\nmagic,fp16,x,5,7,neusight\nmagic,fp16,x,6,7,\n"
    (row,) = read_all([write_table(tmp_path, "t.csv", text)]).rows
    assert row.source == "plain" and row.time_s == {"x": pytest.approx(5.5e-6)}


@pytest.mark.parametrize(
    ("dtype", "size"), [("float8_e4m3fn", 1), ("uint8", 1), ("complex64", 8), ("int16", 2), ("fp8", 1), ("odd", 4)]
)
def test_bytes_of_torchs_dtypes_and_of_tables(dtype: str, size: int) -> None:
    assert item_bytes(dtype) == size
