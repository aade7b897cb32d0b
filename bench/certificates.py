"""Certificates: how long it takes to make and to check them, and how large they are."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from epsilog.certificates import certificate, check_certificate
from epsilog.mechanisms import Composed, Gaussian, PoissonSampled, Repeated

FOLDER = Path(__file__).parents[1] / "checker"
SGD = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000)
TEN = Composed([Repeated(PoissonSampled(Gaussian(1.0 + k / 10), 0.01), 100 + k) for k in range(10)])
REPEATS = 5


def cpu(call: object) -> float:
    """The least of some CPU times of a call."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()  # type: ignore[operator]
        found.append(time.process_time() - start)
    return min(found)


def run(command: list[str], file: Path) -> float:
    """The least of some times of a program, with its start."""
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run([*command, str(file)], check=True, capture_output=True)
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    """Print two tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {"python": [sys.executable, str(FOLDER / "dp_certificate.py")], "node": []}
        programs["node"] = ["node", str(FOLDER / "dp_certificate.mjs")]
        binary = folder / "dp_certificate"
        try:
            subprocess.run(
                ["go", "build", "-o", str(binary), str(FOLDER / "dp_certificate.go")], check=True, capture_output=True
            )
            programs["go"] = [str(binary)]
        except FileNotFoundError:
            print("(no Go compiler)\n")
        print(f"| release | slack | bytes | make, CPU s | check, CPU s | {' | '.join(programs)} (s, with start) |")
        print(f"| --- | --- | --- | --- | --- |{' --- |' * len(programs)}")
        for label, release, slacks in (("DP-SGD", SGD, (0.002, 0.001, 0.0005)), ("ten DP-SGD", TEN, (0.002,))):
            for slack in slacks:
                made = certificate(release, delta=1e-5, slack=slack)
                file = folder / "certificate.json"
                file.write_text(made.text, encoding="utf-8")
                making = cpu(lambda release=release, slack=slack: certificate(release, delta=1e-5, slack=slack))
                checking = cpu(lambda text=made.text: check_certificate(text))
                times = " | ".join(f"{run(command, file):.2f}" for command in programs.values())
                print(f"| {label} | {slack} | {len(made.text)} | {making:.2f} | {checking:.2f} | {times} |")
    times, sizes = [], []
    for file in sorted((FOLDER / "proven").glob("*.json")):
        start = time.process_time()
        check_certificate(file.read_bytes())
        times.append(time.process_time() - start)
        sizes.append(file.stat().st_size)
    print(
        f"\n{len(times)} examples: check, CPU s: median {statistics.median(times):.3f}, most {max(times):.2f}; "
        f"bytes: median {statistics.median(sizes):.0f}, most {max(sizes)}"
    )


if __name__ == "__main__":
    main()
