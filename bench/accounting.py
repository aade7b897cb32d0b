"""Times epsilog's certified intervals beside dp-accounting and prv-accountant on the same tasks; prints Markdown.

Run OMP_NUM_THREADS=1 python bench/accounting.py [--quick]. CPU time; one warm-up, then medians. The number of a peer
is its upper bound; ours is the whole interval, at the default relative_width.
"""

from __future__ import annotations

import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata

from epsilog.accounting import calibrate, epsilon, epsilon_curve
from epsilog.mechanisms import Composed, Gaussian, Laplace, PoissonSampled, Release, Repeated
from epsilog.numerics import gaussian
from epsilog.terms import Interval
from epsilog.terms.formatting import format_lower, format_upper

REPEATS = 3 if "--quick" in sys.argv else 7
MOST_ROUNDS = 10**7  # the peers did not end within minutes beyond
SLOW = 2.0  # seconds of CPU: what takes longer is timed once


def sgd(noise: float, share: float, rounds: int) -> Release:
    return Repeated(PoissonSampled(Gaussian(noise), share), rounds)


TASKS = {
    "a1 q .01, sigma 1, T 1e3": (1.0, 0.01, 1_000, 1e-5),
    "a2 q 256/60000, sigma 1.1, T 14062": (1.1, 256 / 60_000, 14_062, 1e-5),
    "a3 q 1e-4, sigma .6, T 1e6": (0.6, 1e-4, 10**6, 1e-5),
    "a4 q 1e-3, sigma .8, T 1e5": (0.8, 1e-3, 10**5, 1e-5),
    "a5 q .1, sigma 5, T 2e3": (5.0, 0.1, 2_000, 1e-5),
    "a6 q 1, sigma 20, T 1e3": (20.0, 1.0, 1_000, 1e-5),
    "T 1e7, q 1e-4, sigma 1, delta 1e-6": (1.0, 1e-4, 10**7, 1e-6),
    "a1 at delta 1e-30": (1.0, 0.01, 1_000, 1e-30),
    "tiny: q 1e-3, sigma 100, T 100, delta 1e-8": (100.0, 1e-3, 100, 1e-8),
    "huge: q .02, sigma .3, T 2000": (0.3, 0.02, 2_000, 1e-5),
    "few: q 1e-3, sigma 1, T 5": (1.0, 1e-3, 5, 1e-5),
    "T 1e12, q 1e-3, sigma 50": (50.0, 1e-3, 10**12, 1e-5),
}
CURVE = range(20, 1001, 20)
DELTAS = [10 ** (-10 + 8 * i / 49) for i in range(50)]


def median(work: Callable[[], object]) -> tuple[float, object]:
    """Median seconds of CPU and the last answer; one warm-up unless the work is slow."""
    started = time.process_time()
    answer = work()
    first = time.process_time() - started
    if first > SLOW:
        return first, answer
    times = []
    for _ in range(REPEATS):
        for kept in (gaussian._least, gaussian._most):  # a question asked again must not find its answer
            kept.cache_clear()
        started = time.process_time()
        answer = work()
        times.append(time.process_time() - started)
    return statistics.median(times), answer


def dp_accounting_epsilon(noise: float, share: float, rounds: int, delta: float) -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    event = dp_accounting.GaussianDpEvent(noise)
    event = event if share == 1 else dp_accounting.PoissonSampledDpEvent(share, event)
    return float(PLDAccountant().compose(event, rounds).get_epsilon(delta))


def prv_epsilon(noise: float, share: float, rounds: int, delta: float) -> float:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    step = PoissonSubsampledGaussianMechanism(sampling_probability=share, noise_multiplier=noise)
    accountant = PRVAccountant(prvs=[step], max_self_compositions=[rounds], eps_error=0.1, delta_error=delta * 1e-3)
    return float(accountant.compute_epsilon(delta=delta, num_self_compositions=[rounds])[2])


def dp_accounting_calibration(goal: float) -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def event(noise: float) -> object:
        step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(step, 5_000)

    return float(dp_accounting.calibrate_dp_mechanism(PLDAccountant, event, goal, 1e-6))


def shown(work: Callable[[], object]) -> str:
    """Milliseconds and the answer of a peer, or what it raised."""
    try:
        seconds, answer = median(work)
    except Exception as problem:  # noqa: BLE001 - a peer's failure is a result here
        return type(problem).__name__
    return f"{1e3 * seconds:.0f} ms, {answer:.6g}"


def dp_accounting_curve() -> float:
    return [dp_accounting_epsilon(1.0, 0.01, rounds, 1e-5) for rounds in CURVE][-1]


def dp_accounting_deltas() -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    accountant = PLDAccountant().compose(step, 1_000)
    return [float(accountant.get_epsilon(delta)) for delta in DELTAS][-1]


def dp_accounting_mix() -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for i in range(334):
        accountant.compose(dp_accounting.GaussianDpEvent(100 + 0.1 * i))
    for i in range(333):
        accountant.compose(dp_accounting.LaplaceDpEvent(400 + 0.4 * i))
        accountant.compose(dp_accounting.PoissonSampledDpEvent(0.002, dp_accounting.GaussianDpEvent(1 + 0.001 * i)))
    return float(accountant.get_epsilon(1e-5))


def ours() -> list[tuple[str, float, str, Callable[[], object]]]:
    """Each task with our time, our answer and the peer's work."""
    rows: list[tuple[str, float, str, Callable[[], object]]] = []
    for name, (noise, share, rounds, delta) in TASKS.items():
        seconds, found = median(lambda t=(noise, share, rounds), d=delta: epsilon(sgd(*t), delta=d))
        rows.append((name, seconds, bracket(found), lambda t=(noise, share, rounds, delta): dp_accounting_epsilon(*t)))
    for goal in (1.0, 2.0, 8.0):
        seconds, noise = median(lambda g=goal: calibrate(lambda z: sgd(z, 0.01, 5_000), epsilon=g, delta=1e-6))
        peer = partial(dp_accounting_calibration, goal)
        rows.append((f"noise for epsilon {goal:g} (q .01, T 5000, delta 1e-6)", seconds, f"{noise:.7g}", peer))
    step = PoissonSampled(Gaussian(1.0), 0.01)
    seconds, points = median(lambda: epsilon_curve(step, CURVE, delta=1e-5))
    widest = max(point.relative_width for point in points)
    rows.append(("50-point curve, T 20 .. 1000", seconds, f"gaps at most {widest:.1e}", dp_accounting_curve))
    seconds, several = median(lambda: epsilon(sgd(1.0, 0.01, 1_000), delta=DELTAS))
    widest = max(point.relative_width for point in several)
    rows.append(("a1 at 50 deltas, 1e-10 .. 1e-2", seconds, f"gaps at most {widest:.1e}", dp_accounting_deltas))
    parts: list[Release] = [Gaussian(100 + 0.1 * i) for i in range(334)]
    parts += [Laplace(400 + 0.4 * i) for i in range(333)]
    parts += [PoissonSampled(Gaussian(1 + 0.001 * i), 0.002) for i in range(333)]
    seconds, found = median(lambda: epsilon(Composed(parts), delta=1e-5))
    rows.append(("1,000 distinct mechanisms", seconds, bracket(found), dp_accounting_mix))
    return rows


def bracket(found: Interval) -> str:
    """An interval to the digits in which its ends differ, and its relative width."""
    return f"[{format_lower(found.lower, 8)}, {format_upper(found.upper, 8)}], {found.relative_width:.0e}"


def main() -> None:
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "dp-accounting", "prv-accountant")
    )
    print(
        f"Python {platform.python_version()}, {versions}; "
        f"CPU time, medians of {REPEATS} (over {SLOW:g} s: one), one core.\n"
    )
    rows = ours()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print("| task | epsilog: interval, relative width | time | dp-accounting PLD | times faster | prv-accountant |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, seconds, answer, work in rows:
        task, peer, ratio, other = TASKS.get(name), "", "", ""
        if task is None or task[2] <= MOST_ROUNDS:
            try:
                theirs, value = median(work)
                peer, ratio = f"{1e3 * theirs:.0f} ms, {value:.7g}", f"{theirs / seconds:.0f}"
            except Exception as problem:  # noqa: BLE001 - a peer's failure is a result here
                peer = type(problem).__name__
        if task is not None and task[1] < 1 and task[2] <= MOST_ROUNDS:
            other = shown(lambda t=task: prv_epsilon(*t))
        print(f"| {name} | {answer} | {1e3 * seconds:.1f} ms | {peer} | {ratio} | {other} |", flush=True)
    print(f"\nPeak memory of our own tasks: {peak:.0f} MB.")


if __name__ == "__main__":
    main()
