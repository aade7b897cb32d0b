"""Who is counted: neighbours, and a delta beside the population."""

from __future__ import annotations

from collections.abc import Sequence


def neighbors_sentence(privacy_unit: str, populations: Sequence[int], enrolled: int) -> str:
    """Says what neighbours differ in where the population changes between stretches, and what delta is held against.

    >>> neighbors_sentence("client", [900, 900], 900)
    'Neighbours differ in one client, in all stretches at once.'
    """
    says = f"Neighbours differ in one {privacy_unit}, in all stretches at once"
    low, high = min(populations), max(populations)
    if low == high == enrolled:
        return f"{says}."
    stays = "one that joins late or leaves early is in fewer of them and loses no more"
    against = f"{says}; {stays}. Delta is held against 1/{enrolled}"
    if enrolled > high:
        return f"{against}, the units enrolled over all stretches."
    return (
        f"{against}, the largest N, and so is below 1/N in every stretch. That counts all who took part where units "
        "only joined, or only left; where some left and others came, state how many there were in all (enrolled)."
    )


def delta_sentence(delta: float, population: int) -> tuple[str, str]:
    """Grades a delta against the population: ("void" | "weak" | "good", one sentence).

    A mechanism that publishes the record of one unit picked at random meets delta = 1/N.

    >>> delta_sentence(1e-6, 50_000)[0]
    'good'
    """
    share = 1 / population
    if delta >= share:
        meets = "publishing the record of a unit picked at random meets it"
        return "void", f"delta {delta:g} is not below 1/N = {share:g}: {meets}."
    if delta > share / 10:
        return "weak", f"delta {delta:g} is below 1/N = {share:g}, but by less than a factor of ten."
    return "good", f"delta {delta:g} is well below 1/N = {share:g}."
