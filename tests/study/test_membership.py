"""Scores that tell members are measured as such, and coins as coins; half of the units really are left out."""

import numpy as np
import pytest
from scipy import stats

from epsilog.study.membership import compute_unit_losses, evaluate_attack, hold_out_half


def test_auc_and_rate_are_those_of_their_definitions():
    draws = np.random.default_rng(3)
    scores, members = np.round(draws.standard_normal(300), 1), draws.random(300) < 0.4
    scores[members] += 0.8
    found = evaluate_attack(scores, members, fpr=0.1)
    inside, outside = scores[members], scores[~members]
    assert found.auc == pytest.approx(stats.mannwhitneyu(inside, outside).statistic / (inside.size * outside.size))
    best = max((inside > t).mean() for t in np.unique(outside) if (outside > t).mean() <= 0.1)
    assert found.tpr == best
    assert (found.members, found.others) == (inside.size, outside.size)


def test_coins_tell_nothing_and_a_score_that_is_no_number_is_left_out():
    draws = np.random.default_rng(4)
    scores, members = draws.standard_normal(4000), draws.random(4000) < 0.5
    scores[:100] = np.nan
    found = evaluate_attack(scores, members, fpr=0.05)
    assert abs(found.auc - 0.5) < 0.05
    assert abs(found.tpr - 0.05) < 0.03
    assert found.members + found.others == 3900
    with pytest.raises(ValueError, match="members must be at least 1, got 0"):
        evaluate_attack(scores, np.zeros(4000, dtype=bool), fpr=0.05)


@pytest.mark.parametrize("unit_is_client", [True, False])
def test_half_of_the_units_are_left_out_and_nobody_else(make_task, unit_is_client):
    task = make_task(unit_is_client=unit_is_client)
    half, members = hold_out_half(task, 7)
    assert members.sum() == members.size // 2
    assert half.clients.count == task.clients.count
    rows = members if not unit_is_client else np.repeat(members, task.clients.sizes)
    assert np.array_equal(half.clients.features, task.clients.features[rows])
    assert np.array_equal(half.clients.targets, task.clients.targets[rows])
    whose = np.repeat(np.arange(task.clients.count), task.clients.sizes)[rows]
    assert np.array_equal(half.clients.sizes, np.bincount(whose, minlength=task.clients.count))
    assert not np.array_equal(members, hold_out_half(task, 8)[1])


@pytest.mark.parametrize("unit_is_client", [True, False])
def test_losses_are_those_of_the_units_rows(make_task, unit_is_client):
    task = make_task(unit_is_client=unit_is_client)
    model = np.linspace(-1, 1, task.model.size)
    losses = compute_unit_losses(task, model)
    weights, bias = model[:-2].reshape(-1, 2), model[-2:]
    logits = task.clients.features @ weights + bias
    each = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(logits)), task.clients.targets]
    expected = each.reshape(task.clients.count, -1).mean(axis=1) if unit_is_client else each
    assert np.allclose(losses, expected)
