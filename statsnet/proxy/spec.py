"""A finished proxy as data, and its folder on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from statsnet.blocks.base import with_tuples
from statsnet.errors import FileFormatError
from statsnet.measure.network_file import digest
from statsnet.proxy.collective_places import collective_configs
from statsnet.proxy.emit import network_source
from statsnet.proxy.fit_picture import fit_svg
from statsnet.proxy.private_fit import without_fingerprints
from statsnet.proxy.readme import proxy_readme, simulator_readme
from statsnet.proxy.run_file import run_source
from statsnet.proxy.towers import Placed, Tower
from statsnet.proxy.whole_folder import check_output, whole_folder
from statsnet.signatures.canonical import canonical_json, content_id
from statsnet.signatures.comparison import characteristics, summary
from statsnet.signatures.conversion import plain, typed
from statsnet.signatures.coverage import KernelClassCoverage
from statsnet.signatures.documents import (
    Characteristic,
    EffortName,
    Fit,
    FitSummary,
    ProxySpec,
    Round,
    SpecBlock,
    SpecMember,
    SpecTower,
)
from statsnet.signatures.levels import finest
from statsnet.signatures.model import Level, Signature
from statsnet.signatures.rounding import PRIVATE_DIGITS, rounded
from statsnet.signatures.storage import load_fit, load_spec, save
from statsnet.signatures.target import Target
from statsnet.units import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Everything that is known of a proxy when it is made. `replayed` and `not_retimed`: see Problem, `slowed_share`:
    see NetworkMeasurement."""

    spec: ProxySpec
    target: Target
    achieved: Target
    signature: Signature
    replayed: tuple[str, ...]
    not_retimed: tuple[str, ...]
    rounds: tuple[Round, ...]
    build_s: float
    effort: EffortName
    coverage: KernelClassCoverage
    evidence: dict[str, float] | None = None
    """Of a recorded device: the shares of the step's operator time by where they come from."""
    slowed_share: float = 0.0
    communication: tuple[Characteristic, ...] = ()
    """What is asked of the processes that run it together, and what they do."""
    not_together: str | None = None
    """Why they were not measured."""

    @property
    def latency_s(self) -> float:
        return self.signature.measurements[0].latency_s

    @property
    def suite_latency_s(self) -> float:
        """One step of each member, one after the other."""
        return sum(m.latency_s for m in self.target.members)

    @property
    def compression(self) -> float:
        return self.suite_latency_s / self.latency_s

    def fit(self) -> Fit:
        """Content of fit.json."""
        measurement, spec = self.signature.measurements[0], self.spec
        assert spec.budget_s is not None
        fit = Fit(
            spec=spec.id,
            network_sha256=digest(source_of(spec)),
            environment=spec.reference_environment,
            characteristics=(*characteristics(self.target, self.achieved), *self.communication),
            summary=FitSummary(
                **asdict(summary(self.target, self.achieved)),
                budget_s=spec.budget_s,
                step_latency_s=self.latency_s,
                step_latency_error=self.latency_s / spec.budget_s - 1.0,
                suite_latency_s=self.suite_latency_s,
                compression=self.compression,
                coefficient_of_variation=measurement.coefficient_of_variation,
                parameter_count=self.signature.memory.parameter_count,
                candidate_coverage=self.coverage.candidates,
                proxy_coverage=self.coverage.proxy,
            ),
            effort=self.effort,
            rounds=self.rounds,
            replayed_members=self.replayed,
            stored_members=self.not_retimed,
            throttled=(*self.target.throttled, *(["the proxy"] if self.achieved.throttled else [])),
            recorded=self.evidence,
            uncovered=self.coverage.uncovered,
            slowed_share=self.slowed_share or None,
            not_together=self.not_together,
        )
        return without_fingerprints(fit) if self.target.is_private else fit


def make_spec(
    target: Target,
    towers: list[Tower],
    *,
    title: str,
    notes: str,
    dtype: str,
    seed: int,
    budget_s: float,
    environment: Mapping[str, Any],
) -> ProxySpec:
    """Content of spec.json: the network as data, the mix with pinned signatures and reference times.

    Numbers are rounded as in the file, so that the file gives the same source.
    """
    return pinned(ProxySpec(
        id="",
        title=title,
        notes=notes,
        mode=target.mode,
        dtype=dtype,
        seed=seed,
        budget_s=budget_s,
        reference_environment=environment,
        mix=tuple(spec_member(m.name, m.weight, m.latency_s, m.signature, m.keyed_id) for m in target.members),
        level=level_of([m.signature for m in target.members]),
        towers=tuple(
            SpecTower(
                blocks=tuple(SpecBlock(kind=b.kind, config=b.config, optimizer=b.optimizer) for b in tower.blocks),
                purpose=tower.purpose,
                keeps_dtype=tower.keeps_dtype or None,
                in_backward=tower.in_backward or None,
            )
            for tower in towers
        ),
    ))  # fmt: skip


def pinned(spec: ProxySpec) -> ProxySpec:
    """With its id, and its numbers rounded as in the file."""
    rounded = json.loads(canonical_json(plain(replace(spec, id=content_id(plain(spec))))))
    return typed(rounded, ProxySpec)  # type: ignore[no-any-return]


def source_of(spec: ProxySpec) -> str:
    """Text of network.py, from spec.json alone: the same bytes every time.

    Raises FileFormatError for an unknown block, or a value that must not become code.
    """
    towers = [
        Tower(
            blocks=tuple(Placed(kind=b.kind, config=with_tuples(b.config), optimizer=b.optimizer) for b in t.blocks),
            purpose=t.purpose,
            keeps_dtype=bool(t.keeps_dtype),
            in_backward=bool(t.in_backward),
        )
        for t in spec.towers
    ]
    title = f"A proxy for {plural(len(spec.mix), 'workload')}, one {spec.mode} step."
    mode, repeats = spec.mode, None
    if spec.simulation is not None:  # the products of a backward pass are layers themselves
        mode, repeats = "inference", [layer.repeats for layer in spec.simulation.layers]
    try:
        return network_source(
            towers, title=title, spec_id=spec.id, mode=mode, dtype=spec.dtype, seed=spec.seed, repeats=repeats,
            collectives=collective_configs(spec.collectives or (), towers, training=mode == "training"),
        )  # fmt: skip
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise FileFormatError(
            "the spec describes no network", cause=f"{type(error).__name__}: {error}", hint="make the proxy anew"
        ) from error


def level_of(signatures: Sequence[Signature]) -> Level | None:
    """Of those that do not ship with StatsNet, the level of the one that tells most; None if all of them ship."""
    private = [s.level for s in signatures if s.is_private]
    return finest(private) if private else None


def spec_member(name: str, weight: float, latency_s: float, signature: Signature, keyed_id: str | None) -> SpecMember:
    """What pins a member. Of one that does not ship with StatsNet, its keyed id alone says what it is."""
    if signature.workload is None:
        return SpecMember(
            name=name, weight=weight, signature=keyed_id or signature.id, latency_s=rounded(latency_s, PRIVATE_DIGITS)
        )
    return SpecMember(
        name=name,
        weight=weight,
        signature=signature.id,
        latency_s=latency_s,
        batch=signature.batch,
        preset=signature.workload.preset,
        optimizer=signature.optimizer,
        peak_bytes=signature.memory.peak_bytes,
    )


def write_proxy(proxy: Proxy, folder: Path, *, search: Mapping[str, str] | None = None) -> None:
    """Write FILES, and the texts of SEARCH_FILES where given: all of them or none. An existing proxy folder is
    replaced, anything else refused."""
    write_folder(proxy.spec, proxy.fit(), folder, search=search)


def write_folder(spec: ProxySpec, fit: Fit, folder: Path, *, search: Mapping[str, str] | None = None) -> None:
    """As `write_proxy`, from a spec and its fit; without fingerprints of private members, whoever made the fit."""
    if spec.level is not None:
        fit = without_fingerprints(fit)
    check_output(folder)
    folder = Path(os.path.realpath(folder))
    with whole_folder(folder) as partial:
        save(partial / "spec.json", spec)
        save(partial / "fit.json", fit)
        for name, text in {**texts_of(spec, fit), **(search or {})}.items():
            (partial / name).write_text(text, encoding="utf-8")


def texts_of(spec: ProxySpec, fit: Fit) -> dict[str, str]:
    """The files of a proxy's folder that follow from its spec and its fit. Raises FileFormatError for a spec that is no
    network, and for a fit that lacks what every fit has."""
    network = source_of(spec)
    try:
        readme = proxy_readme(spec, fit, network) if spec.simulation is None else simulator_readme(spec, fit)
        pages = {"fit.svg": fit_svg(fit), "README.md": readme}
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FileFormatError(
            "the fit is not one of a proxy", cause=f"{type(error).__name__}: {error}", hint="make the proxy anew"
        ) from error
    return {"network.py": network, "run.py": run_source(), **pages}


def rewrite(folder: Path) -> None:
    """Bring a proxy's files up to what this version makes of its spec.json and fit.json. Nothing is measured."""
    spec, fit = load_spec(folder / "spec.json"), load_fit(folder / "fit.json")
    fit = replace(fit, network_sha256=digest(source_of(spec)))
    save(folder / "fit.json", fit)
    for name, text in texts_of(spec, fit).items():
        (folder / name).write_text(text, encoding="utf-8")
