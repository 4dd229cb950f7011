"""Tables of whole models, which a benchmark reads beside those of single operators."""

from __future__ import annotations

from pathlib import Path

import pytest
from device_tables import write_table

from benchmarks.across.model_tables import ModelKey, read_published
from statsnet.devices.tables.reading import read_all

OPERATORS = "model,mode,seq,batch,device,op,input_shapes,output_shape,dtype,in_layer,count,fw_us,bw_us,acc_us\n"
LINEAR = 'bert,inf,512,2,{},Linear,"[[2,512,64]]","(2,512,128)",float32,1,3,{},0,0\n'
STEPS = "model,mode,seq,batch,variant,device,num_layer,e2e_us,fw_us,bw_us\nbert,inf,512,2,,{},12,9000,9000,0\n"


def test_whole_models(tmp_path: Path) -> None:
    product = 'bert,inf,512,2,MI100,matmul,"[[2,4,512,64],[2,4,64,512]]","(2,4,512,512)",float32,0,1,70,0,0\n'
    write_table(
        tmp_path, "ops.csv", OPERATORS + LINEAR.format("H100-SXM-80GB", 100) + LINEAR.format("MI100", 150) + product
    )
    write_table(tmp_path, "steps.csv", STEPS.format("MI100"))
    tables = read_published([tmp_path])
    (step,) = tables.steps
    assert (step.device, step.layers, step.time_s) == ("amd-mi100", 12, pytest.approx(9e-3))
    assert tables.rows == ()
    linear, product_row = tables.models[ModelKey(model="bert", mode="inference", seq=512, batch=2)]
    assert linear.calls_with(12) == 36 and product_row.calls_with(12) == 1
    assert dict(linear.row.dims) == {"batch": 1, "m": 1024, "n": 128, "k": 64}
    assert dict(product_row.row.dims) == {"batch": 8, "m": 512, "n": 512, "k": 64}
    assert set(linear.row.time_s) == tables.devices == {"nvidia-h100-sxm", "amd-mi100"}


@pytest.mark.parametrize("text", [OPERATORS + LINEAR.format("???", 100), STEPS.format("???")])
def test_devices_of_models_without_a_name_are_left_out_and_counted(tmp_path: Path, text: str) -> None:
    tables = read_published([write_table(tmp_path, "t.csv", text)])
    assert any("the device's name" in note for note in tables.notes)
    assert not tables.devices


def test_records_are_made_beside_tables_of_models(tmp_path: Path) -> None:
    """They are known, and hold no operator alone."""
    write_table(tmp_path, "ops.csv", OPERATORS + LINEAR.format("MI100", 100))
    write_table(tmp_path, "steps.csv", STEPS.format("MI100"))
    assert read_all([tmp_path]).rows == read_all([tmp_path]).notes == ()
