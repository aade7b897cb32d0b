"""Fields that several schemes and calculators share, each described once."""

from __future__ import annotations

from epsilog.terms.fields import DOWN, UP, Field
from epsilog.terms.guarantee import NeighboringRelation

RELATIONS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE.value: "add or remove one",
    NeighboringRelation.REPLACE_ONE.value: "replace one",
    NeighboringRelation.ZERO_OUT.value: "zero out one",
}
SAMPLERS = {
    "poisson": "Poisson: a coin for every unit",
    "fixed-size": "fixed size, without replacement",
    "balls-in-bins": "balls in bins: one round an epoch",
}

POPULATION = Field("privacy units in all; declared, public", "N", ge=1, example=50_000)
CLIENTS = Field("clients in all; declared, public", "N", ge=1)
COHORT_SIZE = Field("units expected in a round", "m", ge=1, le_field="population", example=500)
ROUNDS = Field("training rounds", "T", ge=1, example=200)
NOISE_MULTIPLIER = Field(
    "noise standard deviation on the sum, over the clip norm", "σ", ge=0, rounding=DOWN, example=1.2
)
CORRELATED_NOISE = Field(
    "standard deviation of the noise before it is correlated, over the clip norm", "σ", ge=0, rounding=DOWN
)
UPDATE_CLIP = Field("the L2 norm to which each client's update is clipped", "C", gt=0)
CLIENT_CLIP = Field("the L2 norm to which a client clips its update", "C", gt=0)
CAPPED_COHORT = Field("clients that the server picks at random each round", "m", ge=1, le_field="clients")
MAX_PARTICIPATIONS = Field(
    "the most rounds any client takes part in; over it a client is absent", ge=1, le_field="rounds"
)
TURNS = Field("rounds from one turn of a client to its next; its place says when", "b", ge=1, le_field="clients")
CLIP_NORM = Field("the most one unit can move the sum, in L2 norm; costs nothing", "C", gt=0, default=1.0)
SAMPLING = Field("what the code really does to pick a cohort", choices=SAMPLERS, default="poisson")
RELATION = Field("which data sets are neighbors", choices=RELATIONS, default=NeighboringRelation.ADD_OR_REMOVE_ONE)
LATE_REPLY_POLICIES = {
    "count-as-zero": "left out: each counts as a zero update",
    "close-early": "the round closes once enough have replied",
    "replace": "others are invited in their place",
}
PRIVACY_UNIT = Field("what one neighbor differs in", default="client", max_length=80)
DELTA = Field("failure probability", "δ", gt=0, lt=1, default=None, none_means="min(1/N, the cap)", rounding=DOWN)
DELTA_CAP = Field(
    "the largest delta that the policy accepts", gt=0, lt=1, default=1e-6, none_means="no cap", rounding=DOWN
)
RELEASES_PER_PERIOD = Field("runs released in one period on the same population", ge=1, default=1)
GROUP_SIZE = Field("the most units that one person holds; adds the cost for that person", "k", ge=1, le=64, default=1)
TRIALS = Field(
    "the distribution of the number of runs if only the best is released; adds the cost of tuning",
    default=None,
    none_means="one run; else such as binomial:8,0.5 or geometric:0.1",
    max_length=80,
)
WITHOUT_REPLACEMENT = Field("one unit gives at most one update a round", default=True)
ROUNDS_PER_RELEASE = Field("rounds between two models that leave the server", ge=1, default=1)
ADAPTIVE_CLIP = Field("the clip norm is learnt from the same data", default=False)
LATE_REPLY_POLICY = Field(
    "what becomes of late or missing replies", choices=LATE_REPLY_POLICIES, default="count-as-zero"
)
EPSILON = Field("the goal, in nats", "ε", gt=0, rounding=DOWN, example=2.0)

MECHANISMS = {"laplace": "Laplace", "gaussian": "Gaussian"}
TOTAL_EPSILON = Field("the whole budget, in nats", "ε", gt=0, rounding=DOWN, example=1.0)
TOTAL_DELTA = Field(
    "total failure probability", "δ", gt=0, lt=1, default=None, none_means="none, or from N", rounding=DOWN
)
QUERIES = Field("queries planned", "Q", ge=1, example=100)
QUERIES_USED = Field("queries answered already", ge=0, default=0)
SENSITIVITY = Field("the most one unit can move an answer", "Δ", gt=0, default=1.0, rounding=UP)
MECHANISM = Field("the noise", choices=MECHANISMS, default="laplace")
UNITS = Field("privacy units, for the delta policy", "N", ge=1, default=None, none_means="unknown")
WEIGHTS = Field("relative shares, one for each query", gt=0, default=None, none_means="even", max_length=1000)
MAGNITUDE = Field("a typical true answer, to compare errors with", default=None, none_means="unknown")
