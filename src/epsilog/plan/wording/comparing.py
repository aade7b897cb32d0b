"""Which of two releases protects better."""

from __future__ import annotations

from epsilog.accounting import Comparison, Standing
from epsilog.plan.wording.claims import share_text
from epsilog.terms.digits import lower_text, upper_text

BETTER = {
    "first": "the first",
    "second": "the second",
    "neither": "neither: each is better somewhere",
    "alike": "they are alike, but for the tolerance",
    "open": "not decided by these bounds",
}


def comparison_sentences(found: Comparison, at_delta: Standing, at_fpr: Standing | None) -> list[str]:
    """Which of two releases protects better, and whether the smaller epsilon is the weaker promise.

    Args:
        found: the comparison of their curves.
        at_delta: how they stand at one delta, by epsilon.
        at_fpr: and at one false positive rate; None where no attack is priced.
    """
    less = upper_text(found.tolerance)
    verdicts = {
        "first": f"The first protects better, and is nowhere easier to attack by more than {less}.",
        "second": f"The second protects better, and is nowhere easier to attack by more than {less}.",
        "neither": "Neither is better everywhere: their curves cross.",
        "alike": f"Neither is anywhere easier to attack than the other by more than {less}.",
        "open": "These bounds do not decide which protects better.",
    }
    said = [verdicts[found.verdict]]
    if at_fpr is None or {at_delta.better, at_fpr.better} != {"first", "second"}:
        return said
    names = ("first", "second")
    small = names.index(at_delta.better)  # whose epsilon is the smaller
    less, more = names[small], names[1 - small]
    epsilons, rates = ((each.first, each.second) for each in (at_delta, at_fpr))
    (_, delta), (_, fpr) = epsilons[0].given[0], rates[0].given[0]
    least, most = upper_text(epsilons[small].upper), lower_text(epsilons[1 - small].lower)
    finds, none = lower_text(100 * rates[small].lower, 3), share_text(rates[1 - small].upper)
    said.append(
        f"At delta {delta:g} the {less} has the smaller epsilon, at most {least} where the {more}'s is {most} or more. "
        f"And yet, at false alarms of {100 * fpr:g}%, the best attack on it finds at least {finds}%, where none on the "
        f"{more} finds above {none}: against that attack the smaller epsilon is the weaker promise."
    )
    return said
