"""How long would a proxy's step take on devices that are not here, by their records?

    python benchmarks/diagnostics/predicted_step.py PROXY DEVICE...

Put the device's own time beside it: `python PROXY/network.py --device cuda`. Prints one line for each device. DEVICE is
a name that `statsnet device list` shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.console import parser, start
from statsnet.devices.recorded_bench import RecordedBench, recorded_device
from statsnet.measure.cache import MeasurementCache
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.database import ProfilesDB
from statsnet.synthesis.bench.bench import BenchSetup
from statsnet.synthesis.bench.machine_speed import STEADY
from statsnet.units import format_duration


def predicted_steps_s(folder: Path, devices: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Each device with the seconds of the step of the proxy in `folder`. Raises FileFormatError for what is no proxy,
    UsageError for an unknown device."""
    proxy, db = open_proxy(folder), ProfilesDB(None)
    for name in devices:
        recorded = recorded_device(name, db)
        setup = BenchSetup(
            environment=recorded.environment, mode=proxy.spec.mode, dtype=proxy.spec.dtype, device="cpu",
            cache=MeasurementCache(),
        )  # fmt: skip
        yield name, RecordedBench(setup, recorded).measure_network(proxy.source, range(1), STEADY).latency_s


def main() -> None:
    options = parser(__doc__)
    options.add_argument("proxy", type=Path)
    options.add_argument("devices", nargs="+", metavar="DEVICE")
    given = options.parse_args()
    for name, step_s in predicted_steps_s(given.proxy, given.devices):
        print(f"{name}: {format_duration(step_s)}")


if __name__ == "__main__":
    start(main)
