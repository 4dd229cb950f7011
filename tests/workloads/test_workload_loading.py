"""Targets and factories of users: every form that works, and an actionable error for each that does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from loading_models import MODELS  # noqa: E402

from statsnet.errors import DeviceError, StatsNetError, UsageError, WorkloadError  # noqa: E402
from statsnet.workloads import build, make_step, registry  # noqa: E402
from statsnet.workloads.model_errors import describe  # noqa: E402


@pytest.fixture
def models(tmp_path: Path) -> str:
    path = tmp_path / "models.py"
    path.write_text(MODELS)
    return str(path)


def failure(target: str, **options: object) -> StatsNetError:
    with pytest.raises(StatsNetError) as caught:
        build(target, **{"mode": "inference", **options})
    assert caught.value.message
    return caught.value


@pytest.mark.parametrize("name", ["linear", "with_kwargs", "as_object", "as_named_tuple", "other_names", "numpy_input"])
def test_documented_forms_build_and_run(models: str, name: str) -> None:
    built = build(f"{models}:{name}", mode="inference")
    assert make_step(built)(0).isfinite().all()
    assert built.workload is None
    assert built.preset is None


def test_a_dict_may_bring_loss_optimizer_and_varying_inputs(models: str) -> None:
    built = build(f"{models}:as_dict", mode="training", batch=5)
    assert built.variants() == [(0, 0.25), (1, 0.75)]
    assert built.batch == 5
    step = make_step(built)
    assert step.optimizer_name == "adam"
    assert step(0).isfinite()
    assert step(1).isfinite()


def test_inputs_may_be_bare_tensors_or_keywords(models: str) -> None:
    step = make_step(build(f"{models}:bare_inputs", mode="inference"))
    assert [len(step(index)) for index in range(4)] == [2, 4, 2, 4]


def test_an_optimizer_may_be_a_function(models: str) -> None:
    step = make_step(build(f"{models}:own_optimizer", mode="training"))
    step(0)
    assert step.optimizer_name == "sgd"


def test_overrides_are_parsed(models: str) -> None:
    built = build(f"{models}:linear", mode="inference", overrides={"width": "7", "bias": "false", "kind": "8"})
    assert built.model.in_features == 7
    assert built.model.bias is None
    assert build(f"{models}:any_keyword", mode="inference", overrides={"width": "6"}).model.in_features == 6


def test_a_module_target_works(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(models).parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = Path(models).with_name("models_as_a_module.py")  # other tests leave files called models on the path
    module.write_text(Path(models).read_text(encoding="utf-8"), encoding="utf-8")
    assert build(f"{module.stem}:linear", mode="inference").batch == 2
    del sys.modules[module.stem]


def test_missing_places_are_usage_errors(models: str) -> None:
    assert "no file" in failure("nowhere/model.py:make").message
    assert f"{models}:make" in failure(models).hint
    assert "no module" in failure("no_such_package.models:make").message
    error = failure(f"{models}:maker")
    assert isinstance(error, UsageError)
    assert "linear" in error.hint
    assert "of type int, not a function" in failure(f"{models}:CONSTANT").cause
    assert "a model, not a function" in failure(f"{models}:A_MODEL").cause
    assert "a model's class" in failure(f"{models}:Reads").cause
    assert "no such attribute" in failure(f"{models}:Zoo.huge").cause


def test_a_function_inside_of_a_class_may_be_the_factory(models: str) -> None:
    assert build(f"{models}:Zoo.tiny", mode="inference").model.in_features == 3


def test_a_file_of_a_package_may_import_relatively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    inner = tmp_path / "acme_of_a_test" / "models"
    inner.mkdir(parents=True)
    (inner.parent / "config.py").write_text("width = 3\n")
    (inner / "net.py").write_text(
        "import torch\nfrom ..config import width\n"
        "def make():\n    return torch.nn.Linear(width, 1), torch.ones(1, width)\n"
    )
    assert "__init__.py" in failure(f"{inner}/net.py:make").hint
    for folder in (inner, inner.parent):
        (folder / "__init__.py").touch()
    assert build(f"{inner}/net.py:make", mode="inference").model.in_features == 3


@pytest.mark.parametrize("where", ["", "code"])
def test_a_file_of_a_package_may_import_it_by_its_name(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it ran from the folder that holds the package, whatever the current one is."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    package = f"named_{where or 'plainly'}_in_a_test"
    folder = tmp_path / where / package / "models"
    folder.mkdir(parents=True)
    (folder.parent / "config.py").write_text("width = 3\n")
    (folder / "net.py").write_text(
        f"import torch\nfrom {package}.config import width\n"
        "def make():\n    return torch.nn.Linear(width, 1), torch.ones(1, width)\n"
    )
    assert build(f"{folder}/net.py:make", mode="inference").model.in_features == 3
    (folder / "bad.py").write_text("import a_library_that_nobody_has\n")
    assert "install 'a_library_that_nobody_has'" in failure(f"{folder}/bad.py:make").hint


def test_a_file_that_does_not_import_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("x = 1\ny = x / 0\n")
    error = failure(f"{path}:make")
    assert isinstance(error, WorkloadError)
    assert "ZeroDivisionError" in error.cause
    assert "bad.py, line 2" in error.cause
    path.write_text("def make(:\n")
    assert "SyntaxError" in failure(f"{path}:make").cause


def test_a_failing_factory_gives_type_message_and_line(models: str) -> None:
    error = failure(f"{models}:broken")
    line = 1 + MODELS.splitlines().index('    raise ValueError("the weights are gone")')
    assert isinstance(error, WorkloadError)
    assert error.cause == f"ValueError: the weights are gone (models.py, line {line})"
    ended = failure(f"{models}:exits")
    assert "SystemExit" in ended.cause
    assert "command line" in ended.hint


def test_a_missing_library_is_named_with_its_install_command(models: str) -> None:
    assert failure(f"{models}:needs_known_library").hint == "pip install 'statsnet[models]'"
    assert "transformers_that_is_not_there" in failure(f"{models}:needs_library").hint
    error = failure(f"{models}:needs_library_inside")
    assert "it comes from ModuleNotFoundError: No module named 'another_that_is_not_there'" in error.cause
    assert "another_that_is_not_there" in error.hint


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("model_only", "without inputs"),
        ("nothing", "it returned nothing"),
        ("no_model", "its model is a str"),
        ("a_class", "the class Linear: call it"),
        ("a_function", "in the forward of a torch.nn.Module"),
        ("unknown_key", "unknown keys: arguments"),
        ("no_inputs", "no input"),
        ("both_inputs", "both"),
        ("empty_inputs", "empty"),
        ("odd_kwargs", "its kwargs are a float"),
        ("labels_third", "labels are for its loss"),
        ("odd_loss", "its loss is a int"),
        ("odd_optimizer", "its optimizer"),
    ],
)
def test_other_results_are_refused_with_the_documented_forms(models: str, name: str, cause: str) -> None:
    error = failure(f"{models}:{name}")
    assert isinstance(error, WorkloadError)
    assert cause in error.cause
    assert "(model, args)" in error.hint


def test_inputs_that_the_model_does_not_take_say_what_to_give_instead(models: str) -> None:
    error = failure(f"{models}:odd_inputs")
    assert "too many positional arguments" in error.cause
    assert "((batch,), {})" in error.hint
    assert "leave out labels" in failure(f"{models}:labels").hint
    error = failure(f"{models}:args_as_inputs")
    assert "input2" in error.cause
    assert "as 'args'" in error.hint


def test_a_dictionary_that_is_no_keywords_is_one_argument(models: str) -> None:
    assert make_step(build(f"{models}:one_dictionary", mode="inference"))(0).tolist() == [2, 2]


def test_a_data_loader_gives_its_first_batches(models: str) -> None:
    built = build(f"{models}:loader", mode="inference")
    assert len(built.inputs) == 64
    assert make_step(built)(0).shape == (4, 1)


def test_inputs_of_one_step_are_not_gone_through(models: str) -> None:
    """By its rows, a tensor would be as many steps of one row each."""
    counts = {"one_tensor": 1, "one_mapping": 1, "endless": 64}
    assert {name: len(build(f"{models}:{name}", mode="inference").inputs) for name in counts} == counts


def test_arguments_are_checked_against_the_factory(models: str) -> None:
    error = failure(f"{models}:linear", overrides={"depth": "3"})
    assert isinstance(error, UsageError)
    assert error.cause == "it takes batch, width, bias, scale, kind"
    assert "takes no argument 'batch'" in failure(f"{models}:as_object", batch=4).message
    assert "no value for 'width'" in failure(f"{models}:linear", overrides={"width": "wide"}).message
    assert "width by position only" in failure(f"{models}:by_position").message
    assert "needs width" in failure(f"{models}:needs_width").message
    assert "twice" in failure(f"{models}:linear", batch=4, overrides={"batch": "5"}).message
    assert "not a batch" in failure(f"{models}:linear", batch=0).message


def test_a_list_is_not_set_from_text(models: str) -> None:
    error = failure(f"{models}:of_widths", overrides={"widths": "16,8"})
    assert isinstance(error, UsageError)
    assert "its default is (64, 32)" in error.cause


@pytest.mark.parametrize("name", ["failing_generator", "failing_dataset"])
def test_inputs_that_cannot_be_read_are_the_users_error(models: str, name: str) -> None:
    error = failure(f"{models}:{name}")
    assert isinstance(error, WorkloadError)
    assert "could not be read" in error.message
    assert "no such picture" in error.cause


@pytest.mark.parametrize(
    ("name", "mode", "training"),
    [
        ("frozen_norm", "training", [True, True, False]),
        ("dropout_stays", "inference", [False, True, False]),
        ("evaluates", "inference", [False, False, False]),
        ("trains_epochs", "training", [True, True, True]),
        ("needs_a_loader", "inference", [False, False, False]),
        ("freezes", "training", [True, True, False, False]),
    ],
)
def test_layers_keep_the_mode_that_the_factory_chose(models: str, name: str, mode: str, training: list[bool]) -> None:
    """Also where eval() or train() is something else of the user's."""
    built = build(f"{models}:{name}", mode=mode)
    make_step(built)(0)
    assert [module.training for module in built.model.modules()] == training


def test_a_file_may_import_its_neighbour_whatever_is_installed(tmp_path: Path) -> None:
    """Of the same name, as evaluate.py."""
    (tmp_path / "packaging.py").write_text("WIDTH = 5")
    (tmp_path / "uses.py").write_text(
        "import torch\nfrom packaging import WIDTH\ndef make(): return torch.nn.Linear(WIDTH, 1), torch.ones(1, WIDTH)"
    )
    program = (
        "from statsnet.workloads import build\n"
        f"print(build({str(tmp_path / 'uses.py:make')!r}, mode='inference').model.in_features)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "5", ran.stderr


def test_presets_modes_dtypes_and_devices_are_checked(models: str) -> None:
    assert "standard, small, tiny" in failure("alexnet", preset="huge").hint
    assert "--set" in failure(f"{models}:linear", preset="small").hint
    assert isinstance(failure("alexnet", mode="serving"), UsageError)
    assert "bfloat16" in failure("alexnet", dtype="int8").hint
    assert isinstance(failure("alexnet", device="tpu"), UsageError)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_where_there_is_none_is_a_device_error() -> None:
    error = failure("alexnet", device="cuda")
    assert isinstance(error, DeviceError)
    assert "--device cpu" in error.hint


def test_a_model_that_reads_values_cannot_be_counted_on_meta(models: str) -> None:
    built = build(f"{models}:reads_values", mode="inference", device="meta")
    with pytest.raises(WorkloadError) as caught:
        make_step(built)(0)
    assert "real device" in caught.value.hint
    assert "models.py, line" in caught.value.cause


def test_a_model_without_data_is_counted_and_not_run(models: str) -> None:
    assert "--device meta" in failure(f"{models}:on_meta").hint
    assert make_step(build(f"{models}:on_meta", mode="training", device="meta"))(0).shape == ()


def test_what_one_row_cannot_train_asks_for_more(models: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        make_step(build(f"{models}:one_row", mode="training"))
    assert "larger batch" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [("keeps_its_graph", "detach()"), ("too_few_steps", "more steps"), ("without_versions", "inference_mode()")],
)
def test_what_training_needs_is_said(models: str, name: str, hint: str) -> None:
    def steps() -> None:
        step = make_step(build(f"{models}:{name}", mode="training"))
        for index in range(3):
            step(index)

    with pytest.raises(WorkloadError) as caught:
        steps()
    assert hint in caught.value.hint


def test_a_model_that_hooks_its_gradients_trains(models: str) -> None:
    assert make_step(build(f"{models}:hooks_its_gradient", mode="training"))(0).isfinite()


def test_a_decorated_factory_in_a_file_has_its_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_workloads", dict(registry._workloads))
    path = tmp_path / "decorated.py"
    path.write_text(
        "import torch\nfrom statsnet.workloads import workload\n"
        "@workload(name='own', domain='lab', title='t', source='s', presets={'small': {'batch': 3}})\n"
        "def make(batch=1):\n    return torch.nn.Linear(2, 1), torch.ones(batch, 2)\n"
    )
    for _ in range(2):  # reading a file again replaces its workloads
        built = build(f"{path}:make", mode="inference")
    assert built.batch == 3
    assert built.preset == "small"
    assert built.workload is registry.get("lab/own")


def test_a_model_that_fails_in_its_step_is_named(models: str) -> None:
    with pytest.raises(WorkloadError, match="a step of") as caught:
        make_step(build(f"{models}:wrong_shape", mode="inference"))(0)
    assert "RuntimeError" in caught.value.cause


def test_of_a_failed_script_the_last_line_says_what_happened() -> None:
    trace = "\n".join(["The following operation failed in the TorchScript interpreter.", "at: " * 100, "sizes differ"])
    assert describe(RuntimeError(trace), "") == "RuntimeError: sizes differ"
