"""Losses far out on either side, against listed paths in 60 digits: nothing overflows, nothing is lost."""

import mpmath
import numpy as np
import pytest

from epsilog.accounting.montecarlo import mixtures, pairs
from epsilog.mechanisms import CyclicParticipation, MatrixMechanism, SpacedParticipation, ToeplitzStrategy

ROUNDS = 6


def pair_for(participation):
    return pairs.pair_of(MatrixMechanism(ToeplitzStrategy((1.0,)), participation, ROUNDS, 1.0))


def spaced(participation):
    """Every set of rounds that b-min-sep may take, with its chance."""
    b, p, found = participation.min_separation, participation.probability, {}

    def walk(t, free, chance, taken):
        if t == ROUNDS:
            found[taken] = found.get(taken, 0) + chance
        elif t < free:
            walk(t + 1, free, chance, taken)
        else:
            walk(t + 1, free, chance * (1 - p), taken)
            walk(t + 1, t + b, chance * p, (*taken, t))

    starts = [1.0] + [p] * (b - 1) * participation.warm_start
    for start, weight in enumerate(starts):
        walk(0, start, weight / sum(starts), ())
    return found


def cyclic(participation):
    """Likewise for cyclic Poisson."""
    b, p, found = participation.cycle_length, participation.probability, {}
    for slot in range(b):
        own = range(slot, ROUNDS, b)
        for joins in np.ndindex(*[2] * len(own)):
            taken = tuple(t for t, join in zip(own, joins, strict=True) if join)
            found[taken] = found.get(taken, 0) + p ** len(taken) * (1 - p) ** (len(own) - len(taken)) / b
    return found


CASES = [
    (SpacedParticipation(3, 0.4), spaced),
    (SpacedParticipation(3, 0.4, warm_start=True), spaced),
    (SpacedParticipation(4, 0.01, warm_start=True), spaced),
    (SpacedParticipation(1, 0.3), spaced),
    (CyclicParticipation(3, 0.4), cyclic),
    (CyclicParticipation(2, 1e-6), cyclic),
    (CyclicParticipation(4, 0.5), cyclic),
]


@pytest.mark.slow_beyond(8)
@pytest.mark.parametrize(("participation", "paths"), CASES, ids=lambda each: getattr(each, "__name__", str(each)))
@pytest.mark.parametrize("far", [3.0, 800.0, 20_000.0])
@pytest.mark.filterwarnings("error")
def test_losses_are_the_log_of_the_mean_over_paths(participation, paths, far):
    weights = paths(participation)
    assert sum(weights.values()) == pytest.approx(1)
    ratio = np.random.default_rng(1).uniform(-far, far, (ROUNDS, 40))
    ratio[:, 0], ratio[:, 1], ratio[:, 2] = far, -far, [far, -far] * (ROUNDS // 2)
    found = pair_for(participation).loss(ratio)
    with mpmath.workdps(60):
        for at, loss in zip(ratio.T, found, strict=True):
            total = mpmath.fsum(w * mpmath.exp(mpmath.fsum(at[t] for t in taken)) for taken, w in weights.items())
            assert loss == pytest.approx(float(mpmath.log(total)), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("far", [3.0, 800.0, 1e6])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.filterwarnings("error")
def test_mixtures_are_the_log_of_the_mean_over_modes(far, sign):
    fields = np.random.default_rng(2).uniform(-far, far, (30, 5))
    fields[0], fields[1] = far, -far
    with mpmath.workdps(60):
        direct = [float(mpmath.log(mpmath.fsum(mpmath.exp(v) for v in row) / 5)) for row in fields]
    assert mixtures.log_mean_exp(fields) == pytest.approx(direct, rel=1e-12, abs=1e-9)
    found = mixtures._mixed(fields, sign=sign, floor=-np.inf)
    assert found == pytest.approx(sign * np.array(direct), rel=1e-12, abs=1e-9)
    for floor in (-far / 2, 0.0, far / 2):
        some = mixtures._mixed(fields, sign=sign, floor=floor)
        kept = np.isfinite(some)
        assert kept[sign * np.array(direct) > floor].all()  # what is above the floor is never left out
        assert some[kept] == pytest.approx(sign * np.array(direct)[kept], rel=1e-12, abs=1e-9)
