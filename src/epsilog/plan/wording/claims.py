"""A claim in one sentence, and how it stands to the policy."""

from __future__ import annotations

import math

from epsilog.terms.digits import lower_text, upper_text

OF_RELEASES = (
    "Several such releases, each with randomness of its own, cost more than one, whoever makes them; what each of them "
    "was told may depend on those before."
)
OF_ONE_RUN = "This is of one run alone; the best of several costs more, and its price is told by itself."
MOST_LOG = 700.0  # of a factor that is told


def claim_sentence(
    epsilon: float,
    delta: float,
    *,
    relation: str | None,
    privacy_unit: str,
    population: int | None,
    subject: str = "released models",
    simulation: bool = False,
) -> str:
    """The claim in one sentence, with everything that gives it meaning; of a simulation, what it would be.

    Args:
        epsilon: the certified upper bound, in nats; infinite where nothing is promised.
        delta: the failure probability, in [0, 1); 0 is left unsaid.
        relation: which data sets are neighbours; None for those that a sensitivity is stated for.
        privacy_unit: what one neighbour differs in.
        population: how many such units there are; None where that is not stated.
        subject: what keeps the claim, in the plural.
        simulation: whether randomness was seeded.

    >>> claim_sentence(1.0, 0.0, relation=None, privacy_unit="person", population=None, subject="answers")[:46]
    'The answers are 1-differentially private: data'
    """
    counted = "" if population is None else f" (N = {population:,})"
    if not math.isfinite(epsilon):
        return f"No differential-privacy guarantee is claimed for one {privacy_unit}{counted}."
    bound, at = upper_text(epsilon), upper_text(delta)
    neighbours = {
        "add-or-remove-one": f"adding or removing one {privacy_unit}",
        "replace-one": f"replacing one {privacy_unit} by another",
        "zero-out": f"zeroing out one {privacy_unit}",
        None: f"data that differ in one {privacy_unit}",
    }[relation]
    if simulation:
        start, are, makes = (
            "Simulated, so the noise protects nobody. With fresh randomness the",
            "would be",
            "would make",
        )
    else:
        start, are, makes = "The", "are", "make" if relation is None else "makes"
    pair, plus = (f"({bound}, {at})", f", plus {at}") if delta > 0 else (bound, "")
    return (
        f"{start} {subject} {are} {pair}-differentially private: "
        f"{neighbours}{counted} {makes} any set of outcomes at most "
        f"e^{bound} = {factor_text(epsilon)} times as likely{plus}."
    )


def factor_text(log: float) -> str:
    """A factor of e^log, as an upper bound.

    >>> factor_text(1.0), factor_text(800.0)
    ('2.72', 'more than 1e300')
    """
    return upper_text(math.exp(log), 3) if log < MOST_LOG else "more than 1e300"


def share_text(value: float) -> str:
    """A share that may be stated as an upper bound, in percent.

    >>> share_text(0.001), share_text(0.27004), share_text(1.0)
    ('0.1%', '27.1%', '100%')
    """
    return f"{upper_text(100 * value, 3)}%"


def headroom_sentence(epsilon: float, cap: float | None, fits: int | None, *, most: int) -> str:
    """How a claim stands to the policy's cap on epsilon: room is counted in such releases, as epsilons do not subtract.

    Args:
        epsilon: the claim's.
        cap: the policy's cap at the same delta; None where none is stated.
        fits: how many such releases stay within the cap together, ``most`` for that many or more; None without a cap.
        most: how many were tried.

    >>> headroom_sentence(0.7, 2.0, 8, most=64)
    'The cap of 2 has room: 8 such releases fit it together, this one among them, and a ninth does not.'
    """
    if cap is None or fits is None:
        return "No cap on epsilon is stated, so nothing is said of room under one."
    limit = lower_text(cap)
    if fits == 0:
        return f"It does not fit the cap of {limit}: its epsilon is {upper_text(epsilon)}."
    if fits == 1:
        return f"It fits the cap of {limit}; a second such release does not fit beside it."
    if fits >= most:
        return f"The cap of {limit} has room: {most} such releases fit it together, this one among them, or more."
    return (
        f"The cap of {limit} has room: {fits} such releases fit it together, this one among them, and "
        f"{_ordinal(fits + 1)} does not."
    )


def _ordinal(number: int) -> str:
    """One more, with its article.

    >>> [_ordinal(number) for number in (3, 8, 13, 18, 22, 64)]
    ['a third', 'an eighth', 'a 13th', 'an 18th', 'a 22nd', 'a 64th']
    """
    words = "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"
    if number - 3 < len(words):
        return f"{'an' if number in (8, 11) else 'a'} {words[number - 3]}"
    last = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{'an' if str(number)[0] == '8' or number == 18 else 'a'} {number}{last}"
