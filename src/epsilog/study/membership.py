"""Membership inference: two attacks on the last model, by an attacker who knows all rows.

Training leaves out a random half of the units. The first attack guesses that units with a small loss are members
(Yeom, Giacomelli, Fredrikson & Jha 2018, arXiv:1709.01604). The second, LiRA, trains shadow models on other halves. It
compares the confidence of each unit with that of models with and without it (Carlini, Chien, Nasr, Song, Terzis &
Tramer 2022, arXiv:2112.03570, the online attack).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilog.study.experiment import Experiment, Numbers, StudyRun, drop_test_set
from epsilog.terms import CheckError, arrays, check
from epsilog.training import Federation, Randomness, Task

Vector = NDArray[np.float64]
ATTACKS = ("losses", "LiRA")
FEWEST = 4  # fewest shadow models for means and variances
OWN_VARIANCE = 64  # fewest shadow models for separate variances of each unit
SHADOWS = 1_000_000_000  # first seed of shadow models
SMALLEST_LOSS, SMALLEST_VARIANCE = 1e-30, 1e-12
THREE_SIGMA = 0.00135  # the chance of a normal number more than three standard deviations above its mean


@dataclass(frozen=True, slots=True)
class MembershipExperiment(Experiment):
    """Settings of the membership attacks.

    Attributes:
        fprs: false positive rates in (0, 1) at which true positive rates are reported.
        shadows: number of shadow models for LiRA, shared by all seeds; 0 for the loss attack alone, else at least 4.
        units: largest number of attacked units, drawn at random and equal in all runs.
    """

    fprs: Annotated[tuple[float, ...], check.sequence_of(check.in_open_interval(0, 1))] = (0.01, 0.001)
    shadows: Annotated[int, check.integer(0)] = 0
    units: Annotated[int, check.integer(100)] = 4000
    kind: ClassVar[str] = "membership"

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not self.fprs or len(set(self.fprs)) != len(self.fprs):
            raise CheckError("fprs", "some, each once", repr(self.fprs), verb="name")
        if 0 < self.shadows < FEWEST:
            raise CheckError("shadows", f"0 or at least {FEWEST}", f"{self.shadows}")

    def measure(self, run: StudyRun) -> dict[str, Numbers | None]:
        """Attack the last model by losses and by LiRA; return the ``summarize_attack`` of each."""
        half, members = hold_out_half(drop_test_set(run.task), run.seed)
        model = run.train(half)
        if model is None:
            return dict.fromkeys(ATTACKS if self.shadows else ATTACKS[:1])
        asked = _draw_units(members.size, self.units)
        found: dict[str, Numbers | None] = {}
        found["losses"] = summarize_attack(-compute_unit_losses(run.task, model)[asked], members[asked], self.fprs)
        if not self.shadows:
            return found
        shadows = [_train_shadow(self, run, place) for place in range(self.shadows)]
        kept = [one for one in shadows if one is not None]
        if len(kept) < FEWEST:
            return found | {"LiRA": None}
        confidences, inside = (np.stack(parts) for parts in zip(*kept, strict=True))
        scores = compute_lira_scores(compute_unit_confidences(run.task, model)[asked], confidences, inside)
        return found | {"LiRA": summarize_attack(scores, members[asked], self.fprs)}


@dataclass(frozen=True, slots=True)
class AttackResult:
    """How well scores separate members from other units.

    Attributes:
        auc: probability that a member scores above another unit, ties counting half; 0.5 is guessing.
        tpr: fraction of members above the threshold that at most ``fpr`` of the others exceed.
        fpr: the false positive rate of the threshold.
        members: number of members.
        others: number of other units.
    """

    auc: float
    tpr: float
    fpr: float
    members: int
    others: int

    @property
    def tpr_beyond_chance(self) -> bool:
        """Return whether uninformative scores give at least this many true positives with probability below 1/740.

        Such scores order the units at random. The number of members above the others that may pass, plus one more, has
        a negative hypergeometric distribution.
        """
        from scipy.stats import nhypergeom  # takes a second to import, and most commands import this module

        passing = int(self.fpr * self.others)
        distribution = nhypergeom(self.members + self.others, self.members, passing + 1)
        return bool(distribution.sf(round(self.tpr * self.members) - 1) < THREE_SIGMA)

    @property
    def beyond_chance(self) -> bool:
        """Return whether the area is more than three standard errors above guessing (Mann & Whitney 1947)."""
        variance = (self.members + self.others + 1) / (12 * self.members * self.others)
        return self.auc > 0.5 + 3 * math.sqrt(variance)


def hold_out_half(task: Task, seed: int) -> tuple[Task, NDArray[np.bool_]]:
    """Hold out a random half of the units, so that all such tasks have one size and are compiled once.

    Returns:
        The task without their rows, in which held-out clients keep their positions, and a mask of the members: one flag
        per unit (a client or a row).
    """
    clients, stream = task.clients, Randomness.from_seed(seed).stream("membership", 0)
    units = clients.count if task.unit_is_client else len(clients.features)
    members = np.argsort(stream.words(units), kind="stable") < units // 2
    rows = np.repeat(members, clients.sizes) if task.unit_is_client else members
    owners = np.repeat(np.arange(clients.count), clients.sizes)[rows]
    sizes = np.bincount(owners, minlength=clients.count)
    kept = Federation(np.asarray(clients.features[rows]), np.asarray(clients.targets[rows]), sizes)
    return replace(task, clients=kept), members


def compute_unit_losses(task: Task, model: Vector) -> Vector:
    """Return the mean loss of each unit under a model; nan for a client without usable rows; shape (units,)."""
    return _of_units(task, _losses(task, model))


def compute_unit_confidences(task: Task, model: Vector) -> Vector:
    """Return the mean scaled confidence ln(p / (1 - p)) of each unit, p = e^-loss; nan as in ``compute_unit_losses``.

    For classes, p is the probability of the right class (Carlini et al. 2022, Sec. IV-C). For a real target, the
    confidence is minus the loss.
    """
    losses = _losses(task, model)
    if task.model.classes is None:
        return _of_units(task, -losses)
    bounded = np.maximum(losses, SMALLEST_LOSS)  # a nan stays one
    return _of_units(task, -bounded - np.log(-np.expm1(-bounded)))


def _losses(task: Task, model: Vector) -> Vector:
    """Return the loss of each row; nan for an unusable row."""
    clients, usable = task.clients, task.clients.usable(task.model)
    losses = np.full(len(clients.features), np.nan)
    losses[usable] = task.model.compute_losses(model, clients.features[usable], clients.targets[usable])
    return losses


def _of_units(task: Task, values: Vector) -> Vector:
    """Return the mean of each unit over its rows that are not nan."""
    if not task.unit_is_client:
        return values
    usable, clients = ~np.isnan(values), task.clients
    owners = np.repeat(np.arange(clients.count), clients.sizes)[usable]
    sums = np.bincount(owners, values[usable], minlength=clients.count)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.bincount(owners, minlength=clients.count))


def evaluate_attack(scores: Vector, members: NDArray[np.bool_], *, fpr: float) -> AttackResult:
    """Return how well large scores identify members; nan scores are left out.

    Args:
        scores: scores of units; shape (units,).
        members: mask of the members; shape (units,).
        fpr: false positive rate of the threshold, in (0, 1).

    >>> found = evaluate_attack(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, True, False, False]), fpr=0.5)
    >>> found.auc, found.tpr
    (1.0, 1.0)
    """
    fpr = check.in_open_interval(0, 1)(fpr=fpr)
    scores = arrays.doubles("scores", scores)
    known = ~np.isnan(scores)
    inside, outside = scores[known & members], np.sort(scores[known & ~members])
    check.integer(1)(members=inside.size)
    check.integer(1)(others=outside.size)
    below, upto = (np.searchsorted(outside, inside, side=side) for side in ("left", "right"))
    auc = float((below + upto).sum() / (2 * inside.size * outside.size))
    threshold = outside[outside.size - 1 - int(fpr * outside.size)]
    return AttackResult(auc, float((inside > threshold).mean()), fpr, int(inside.size), int(outside.size))


def compute_lira_scores(confidences: Vector, shadows: Vector, inside: NDArray[np.bool_]) -> Vector:
    """Return the LiRA score of each unit: log N(c; models with it) - log N(c; models without it); shape (units,).

    Below 64 shadow models, all units share the two variances, as Carlini et al. (2022, Sec. VI-C) advise.

    Args:
        confidences: confidences of the attacked model; shape (units,).
        shadows: confidences of the shadow models; shape (shadows, units).
        inside: whether each of them was trained with each unit; shape (shadows, units).

    Returns:
        Scores; nan if fewer than two shadow models have the unit, or lack it.
    """
    found = []
    for saw in (inside, ~inside):
        count = saw.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(saw, shadows, 0.0).sum(axis=0) / count
            squares = np.where(saw, (shadows - mean) ** 2, 0.0).sum(axis=0)
            if len(shadows) >= OWN_VARIANCE:
                variance = squares / (count - 1)
            else:
                known = ~np.isnan(squares) & (count > 1)
                variance = np.full(mean.shape, squares[known].sum() / max((count[known] - 1).sum(), 1))
            variance = np.maximum(variance, SMALLEST_VARIANCE)
            score = -((confidences - mean) ** 2) / (2 * variance) - np.log(variance) / 2
        found.append(np.where(count > 1, score, np.nan))
    return np.asarray(found[0] - found[1])


def summarize_attack(scores: Vector, members: NDArray[np.bool_], fprs: tuple[float, ...]) -> Numbers:
    """Return the AUC and the true positive rates of an attack, each with whether it is beyond chance."""
    found = [evaluate_attack(scores, members, fpr=fpr) for fpr in fprs]
    numbers: Numbers = {"auc": found[0].auc, "auc_beyond_chance": float(found[0].beyond_chance)}
    for one in found:
        numbers |= {f"tpr_at_{one.fpr:g}": one.tpr, f"tpr_at_{one.fpr:g}_beyond_chance": float(one.tpr_beyond_chance)}
    return numbers


def _draw_units(units: int, most: int) -> NDArray[np.int64]:
    """Draw the attacked units."""
    order = np.argsort(Randomness.from_seed(0).stream("asked", 0).words(units), kind="stable")
    return np.sort(order[:most])


def _train_shadow(
    experiment: MembershipExperiment, run: StudyRun, place: int
) -> tuple[Vector, NDArray[np.bool_]] | None:
    """Return the confidences of a shadow model, and a mask of its members; None if training diverged."""
    seed = SHADOWS + place
    shadow = replace(run, seed=seed)
    half, members = hold_out_half(drop_test_set(run.task), seed)
    asked = _draw_units(members.size, experiment.units)

    def compute() -> list[float | None] | None:
        model = shadow.train(half)
        if model is None:
            return None
        return [None if np.isnan(one) else float(one) for one in compute_unit_confidences(run.task, model)[asked]]

    confidences = run.shared(f"shadow model {place}", compute)
    return None if confidences is None else (np.array(confidences, dtype=np.float64), members[asked])
