"""`statsnet synthesize`: a proxy for a mix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import fleet, json_option, layers, options, output, proxy_names, search_storage, simulators
from statsnet.deadline import Deadline
from statsnet.errors import UsageError
from statsnet.measure import process
from statsnet.measure.at_hand import check_counters, is_recorded, require_device
from statsnet.measure.device_lock import LOCKS
from statsnet.measure.patience import PATIENCE
from statsnet.progress import Stages
from statsnet.proxy.whole_folder import check_output
from statsnet.synthesis.effort import EFFORTS, NORMAL

if TYPE_CHECKING:
    from statsnet.devices.make_proxy import MakeOptions
    from statsnet.proxy.spec import Proxy
    from statsnet.synthesis.problem import ProxyRequest
    from statsnet.synthesis.search.search import SearchLimits
    from statsnet.synthesis.search.study_storage import StudyStorage


@json_option.command(short_help="Make a proxy network for a mix of workloads.")
@click.option("--mix", required=True, metavar=options.MIX, help=options.MIX_HELP)
@options.mode
@click.option(
    "--budget",
    type=options.Duration(),
    metavar="TIME",
    help=(
        "Step time of the proxy. Default: that of the suite ÷ 53, but at least 80 ms (training: 160 "
        "ms), more for a suite of long calls. Of a suite below that: all of its time, but at least 20 ms. "
        "On a GPU: one call of each of the 44 operators that take the most time, 20 to 50 ms."
    ),
)
@click.option(
    "--compression",
    type=click.FloatRange(min=1.0),
    metavar="N",
    help="How many times shorter than one step of every workload it is to be, but at least 20 ms (default: see "
    "--budget).",
)
@click.option(
    "--trials",
    type=options.Whole(min=1),
    metavar="N",
    help="Search over N designs for a shorter step that fits as well; a better fit is not to be expected.",
)
@click.option("--time-limit", type=options.Duration(), metavar="TIME", help="Search over designs for so long.")
@click.option(
    "--effort",
    type=options.Choice(tuple(EFFORTS)),
    default=NORMAL.name,
    show_default=True,
    help="How much is measured: quick one network, once; normal some, until one is good or gains little; thorough six.",
)
@click.option(
    "--within",
    type=options.Duration(),
    metavar="TIME",
    help="End after about this time with the best proxy so far; one network is measured in any case.",
)
@click.option("--resume", is_flag=True, help="Go on with the search that was begun for this folder.")
@click.option(
    "--storage",
    metavar="URL",
    help=(
        "Search together with other machines of one kind: a journal on a shared disk (a path), "
        "postgresql://USER@HOST/DATABASE, or grpc://HOST:PORT (Optuna's proxy)."
    ),
)
@click.option(
    "--study", metavar="NAME", help="With --storage: the search that this machine joins (default: named by the mix)."
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Profile members whose models are at hand, and time blocks, again, not their steps alone.",
)
@options.device(recorded=True)
@click.option(
    "--dtype",
    type=options.Choice(("float32", "bfloat16", "float16")),
    help="With a device that tables recorded: count the members in this dtype.",
)
@options.counters
@click.option(
    "--macs",
    metavar="N",
    help="A proxy for simulators: scaled layers of so many multiply-adds in all. Nothing is measured.",
)
@layers.scaling("With --macs")
@layers.reference
@options.profiles
@options.seed
@options.sandbox
@fleet.option
@fleet.environment
@click.option("-o", "--output", "folder", metavar="DIR", help="Folder of the proxy (default: proxy-<the mix>).")
def synthesize(
    mix: str,
    mode: str,
    budget: float | None,
    compression: float | None,
    trials: int | None,
    time_limit: float | None,
    effort: str,
    within: float | None,
    resume: bool,
    storage: str | None,
    study: str | None,
    fresh: bool,
    device: str,
    dtype: str | None,
    counters: str,
    macs: str | None,
    quantum: int | None,
    signed: bool,
    reference: str,
    profiles: str | None,
    seed: int,
    engine: str,
    environment: str | None,
    folder: str | None,
    json_path: str | None,
) -> None:
    """Make a small network that behaves like a weighted mix of workloads, and write it to a folder.

    A weight is a share of device time. A domain stands for its workloads in equal shares;
    `statsnet list profiles` shows what can be mixed. A mix can be a file, too: --mix suite.yaml
    (docs/formats.md); --mode, --budget and --compression override it.

    With --engine ray the nodes of a cluster measure members, blocks and networks, several at once; what is measured is
    kept here.

    Example: statsnet synthesize --mix recsys:0.5,cv:0.5 --budget 10ms -o my-proxy
    """
    from statsnet.synthesis.asked import asked_of, check_recorded

    deadline = Deadline.after(within, LOCKS.clock)
    searching = trials is not None or time_limit is not None
    _check_together(searching, resume, fresh)
    fleet.check(engine, environment)
    _check_on_fleet(engine, device, counters, searching)
    search_storage.check_options(storage, study, searching=searching)
    simulators.check_options(macs)
    asked = asked_of(mix, mode=options.given_mode(mode), budget_s=budget, compression=compression)
    mode = asked.mode
    path = Path(folder or proxy_names.default_folder(asked, profiles))
    if macs is not None:
        json_option.check_no_input(json_path, [mix, *_inputs(mix, mode, profiles, False)])
        simulators.synthesize_for_simulators(
            mix, mode, macs, quantum=quantum, signed=signed, reference=reference, profiles=profiles, seed=seed,
            path=path, title=asked.name, notes=asked.notes, json_path=json_path,
        )  # fmt: skip
        return
    recorded = is_recorded(device)
    check_recorded(recorded, dtype=dtype, searching=searching, fresh=fresh)
    json_option.check_no_input(json_path, [mix, *_inputs(mix, mode, profiles, recorded)])
    check_counters(counters, device)
    if not recorded and engine == fleet.LOCAL:
        require_device(device)
    check_output(path)
    kept = search_storage.checked(storage, path, resume=resume) if searching else None
    if not recorded and engine == fleet.LOCAL:
        process.prepare_on(device)
    from statsnet.devices.make_proxy import MakeOptions
    from statsnet.measure.cache import MeasurementCache
    from statsnet.proxy.spec import write_proxy
    from statsnet.synthesis.problem import ProxyRequest
    from statsnet.synthesis.search.search import SearchLimits

    json_option.check_not_within(json_path, path)
    notes: list[str] = []
    request = ProxyRequest.of(asked, seed)
    limits = SearchLimits(trials=trials, time_limit_s=time_limit)
    with (
        output.told_if_it_fails(notes),
        fleet.pooled(engine, device, environment, mode) as pool,
        output.progress() as show,
    ):
        stages = Stages(show, deadline)
        wanted = MakeOptions(
            mode=mode,
            device=device,
            dtype=dtype,
            profiles=Path(profiles) if profiles else None,
            cache=MeasurementCache.of_run(fresh=fresh),
            counters=counters if pool is None else "off",
            note=notes.append,
            effort=EFFORTS[effort],
            deadline=deadline,
            stages=stages,
            pool=pool,
        )
        proxy, files = _made(request, wanted, kept, limits, study)
    write_proxy(proxy, path, search=files)
    output.print_notes([*notes, *proxy_names.called(mix, mode, profiles)])
    _print(proxy, path, stages, json_path)


def _made(
    request: ProxyRequest, wanted: MakeOptions, kept: StudyStorage | None, limits: SearchLimits, study: str | None
) -> tuple[Proxy, dict[str, str]]:
    """The proxy, and the files of the search if there was one."""
    from statsnet.devices.make_proxy import search_proxy, synthesize

    if kept is None:
        return synthesize(request, wanted), {}
    with search_storage.resumable(kept):
        searched = search_proxy(request, wanted, storage=kept, limits=limits, study=study)
    return searched.proxy, search_storage.files(searched.to_dict())


def _print(proxy: Proxy, path: Path, stages: Stages, json_path: str | None) -> None:
    from statsnet.reporting.proxy import proxy_report
    from statsnet.reporting.tables import stages_table
    from statsnet.signatures.conversion import plain

    fit, total_s = proxy.fit(), stages.total_s
    times = {"stages_s": stages.spent_s, "total_s": total_s}
    data = plain({"folder": str(path), "spec": proxy.spec, "fit": fit, **times})
    table = stages_table(stages.spent_s, total_s, PATIENCE.spent_s)
    output.deliver(data, json_path, lambda: [*proxy_report(proxy.spec, fit), table], written=path)


def _check_together(searching: bool, resume: bool, fresh: bool) -> None:
    if resume and not searching:
        raise UsageError("--resume goes on with a search", hint="say how far: --trials, --time-limit or both")
    if searching and fresh:
        raise UsageError(
            "--fresh and a search were both given",
            cause="a search must be able to go on with what it has measured",
            hint="profile the members first (statsnet profile NAME -o FILE) and search with --mix FILE:WEIGHT,...",
        )


def _check_on_fleet(engine: str, device: str, counters: str, searching: bool) -> None:
    """Raises UsageError for what the nodes of a fleet do not do."""
    if engine == fleet.LOCAL:
        return
    if options.was_given("macs"):
        what, why = "--macs", "nothing is measured for it"
    elif counters == "ncu":
        what, why = "--counters ncu", "a fleet's nodes read no counters"
    elif is_recorded(device):
        what, why = device, "a device that is not here is computed, not measured"
    elif searching:
        what, why = "a search", "the machines of a search share it by its storage"
    else:
        return
    hint = "start the command on each machine, with --storage" if searching else f"leave out --engine, or {what}"
    raise UsageError(f"--engine and {what} were both given", cause=why, hint=hint)


def _inputs(mix: str, mode: str, profiles: str | None, recorded: bool) -> list[Path]:
    """The files that a mix is read from. Wrong names are reported here, before torch is imported."""
    from statsnet.signatures.database import ProfilesDB
    from statsnet.signatures.mix import resolve_mix, signature_path
    from statsnet.signatures.mix_request import mix_requests

    db = ProfilesDB(profiles)
    requests = mix_requests(mix)
    if recorded and any(r.selection.dtype is not None for r in requests):  # may be counted in that dtype
        return [path for r in requests if (path := signature_path(r, db.names)) is not None]
    return [member.path for member in resolve_mix(mix, mode, db).members]
