"""Many different weights become few, on the safe side; and the bands that a comparison tries by itself."""

import importlib
import itertools

import numpy as np
import pytest

from epsilog.plan import consumed_budget
from epsilog.terms import CalibrationError

correlated = importlib.import_module("epsilog.plan.noise_comparison")
MOST = consumed_budget._MOST_SHARES


@pytest.mark.parametrize("different", [1, 2, MOST - 1, MOST, MOST + 1, 5 * MOST])
@pytest.mark.parametrize("width", [1e-9, 0.5, 30.0])
def test_shares_are_grouped_upwards_and_by_little(different, width):
    rng = np.random.default_rng(different)
    shares = np.exp(np.linspace(0, width, different)) if different > 1 else np.array([2.0])
    groups = [(int(n), float(s)) for n, s in zip(rng.integers(0, 4, different), shares, strict=True)]
    groups += groups[:3]
    found = consumed_budget.bucket_shares(groups)
    used = [(n, share) for n, share in groups if n]
    assert sum(n for n, _ in found) == sum(n for n, _ in used)
    assert len({share for _, share in found}) == len(found) <= MOST
    kept = sorted(share for _, share in found)
    assert set(kept) <= {share for _, share in used}
    if len({share for _, share in used}) <= MOST:
        assert kept == sorted({share for _, share in used})
    step = (max(s for _, s in used) / min(s for _, s in used)) ** (1 / MOST) if used else 1.0
    ends = np.array(kept)
    joined = dict.fromkeys(kept, 0)
    for n, share in used:
        top = float(ends[np.searchsorted(ends, share)])  # the least that is not below it
        assert share <= top <= share * step * (1 + 1e-9)
        joined[top] += n
    assert {share: n for n, share in found} == joined


@pytest.mark.parametrize(
    ("rounds", "cycle", "bands"),
    [(64, 16, [2, 4, 8, 16]), (16, 64, [2, 4, 8, 16]), (7, 100, [2, 4]), (100, 7, [2, 4]), (1, 9, []), (9, 1, [])],
)
def test_bands_that_fit_an_epoch_and_the_run_are_tried(monkeypatch, rounds, cycle, bands):
    monkeypatch.setattr(correlated.accounting, "calibrate", lambda make, **_: make(3.0) and 3.0)
    monkeypatch.setattr(correlated, "estimate_noise", lambda release, **_: float(len(release.strategy.coefficients)))
    found = correlated.compare_noise_strategies(rounds=rounds, cycle_length=cycle, epsilon=1.0, delta=1e-5, seed=1)
    names = {row.name for row in found.rows}
    assert names == {
        "independent noise, Poisson sampling",
        "independent noise, balls-in-bins",
        *(f"correlated noise ({size} bands), balls-in-bins" for size in bands),
    }
    errors = [row.error for row in found.rows]
    assert errors == sorted(errors)
    assert [row.certified for row in found.rows] == ["correlated" not in row.name for row in found.rows]
    document = found.to_json()
    assert (document["rounds"], document["cycle_length"], document["epsilon"]) == (rounds, cycle, 1.0)
    assert [row["name"] for row in document["rows"]] == [row.name for row in found.rows]
    assert found.winner is found.rows[0]


def row(name, error, *, certified, repeated):
    from epsilog.mechanisms import Gaussian, Repeated

    return correlated.NoiseOption(
        name, Repeated(Gaussian(1.0), 2) if repeated else Gaussian(1.0), 1.0, error, certified
    )


def test_the_sentence_names_the_winner_its_saving_and_its_basis():
    base = row("Poisson", 4.0, certified=True, repeated=True)
    for others, says in (
        ([row("bands", 3.0, certified=False, repeated=False)], "bands wins: 25% less noise in the model than Poisson"),
        ([row("bins", 2.0, certified=True, repeated=False)], "bins wins: 50% less noise"),
        ([row("bands", 5.0, certified=False, repeated=False)], "Poisson wins: correlated noise saves nothing here."),
    ):
        rows = tuple(sorted([base, *others], key=lambda each: each.error))
        found = correlated.NoiseComparison(8, 4, 1.0, 1e-5, rows)
        assert says in str(found.sentence)
        assert (found.sentence.id == "noise/winner-estimated") == (not rows[0].certified)
        assert (found.sentence.id == "noise/winner-certified") == (rows[0].certified and rows[0] is not base)


@pytest.mark.parametrize("bad", [{"rounds": 0}, {"cycle_length": 0}, {"epsilon": 0.0}, {"delta": 1.0}, {"bands": [0]}])
def test_a_comparisons_arguments_are_refused_by_name(monkeypatch, bad):
    monkeypatch.setattr(correlated.accounting, "calibrate", lambda *_, **__: 1.0)
    good = {"rounds": 8, "cycle_length": 4, "epsilon": 1.0, "delta": 1e-5, "seed": 1}
    with pytest.raises((ValueError, CalibrationError), match=next(iter(bad))):
        correlated.compare_noise_strategies(**(good | bad))


def test_grouping_is_the_same_in_every_order():
    groups = [(1, 1.0 + k / 997) for k in range(3 * MOST)]
    whole = {share: n for n, share in consumed_budget.bucket_shares(groups)}
    for some in itertools.islice(itertools.permutations(range(4)), 5):
        parts = [groups[at::4] for at in some]
        assert {share: n for n, share in consumed_budget.bucket_shares([*itertools.chain(*parts)])} == whole
