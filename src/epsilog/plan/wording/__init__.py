"""What plans and reports say about their numbers: one sentence for one thing, wherever it is shown."""

from epsilog.plan.wording.boundaries import limits, query_limits
from epsilog.plan.wording.claims import (
    OF_ONE_RUN,
    OF_RELEASES,
    claim_sentence,
    factor_text,
    headroom_sentence,
    share_text,
)
from epsilog.plan.wording.comparing import BETTER, comparison_sentences
from epsilog.plan.wording.formulas import average_sentence, formula_sentence
from epsilog.plan.wording.odds import PRIORS, odds_sentence, posterior, prior_text, worst_sentences
from epsilog.plan.wording.populations import delta_sentence, neighbors_sentence
from epsilog.plan.wording.readings import (
    OF_COPIES,
    attack_label,
    copies_rows,
    named_label,
    of_attacks,
    of_copies,
    reading_rows,
)

__all__ = [
    "BETTER",
    "OF_COPIES",
    "OF_ONE_RUN",
    "OF_RELEASES",
    "PRIORS",
    "attack_label",
    "average_sentence",
    "claim_sentence",
    "comparison_sentences",
    "copies_rows",
    "delta_sentence",
    "factor_text",
    "formula_sentence",
    "headroom_sentence",
    "limits",
    "named_label",
    "neighbors_sentence",
    "odds_sentence",
    "of_attacks",
    "of_copies",
    "posterior",
    "prior_text",
    "query_limits",
    "reading_rows",
    "share_text",
    "worst_sentences",
]
