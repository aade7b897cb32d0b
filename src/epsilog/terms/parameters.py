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
    "poisson": "Poisson: each unit joins independently",
    "fixed-size": "fixed size, without replacement",
    "balls-in-bins": "balls-in-bins: each unit joins one random round per epoch",
}

POPULATION = Field("number of privacy units; declared, public", "N", ge=1, example=50_000)
CLIENTS = Field("number of clients; declared, public", "N", ge=1)
COHORT_SIZE = Field("expected number of units per round", "m", ge=1, le_field="population", example=500)
ROUNDS = Field("training rounds", "T", ge=1, example=200)
NOISE_MULTIPLIER = Field(
    "noise standard deviation of the sum, divided by the clip norm", "σ", ge=0, rounding=DOWN, example=1.2
)
CORRELATED_NOISE = Field(
    "noise standard deviation before correlation, divided by the clip norm", "σ", ge=0, rounding=DOWN
)
UPDATE_CLIP = Field("L2 clip norm of each client's update", "C", gt=0)
CLIENT_CLIP = Field("L2 clip norm of each client's update, applied by the client", "C", gt=0)
CAPPED_COHORT = Field("number of clients that the server samples each round", "m", ge=1, le_field="clients")
MAX_PARTICIPATIONS = Field(
    "maximum number of rounds per client; a client skips all further rounds", ge=1, le_field="rounds"
)
TURNS = Field(
    "rounds between two participations of a client; its position sets its round", "b", ge=1, le_field="clients"
)
CLIP_NORM = Field("L2 clip norm of one unit's contribution; does not affect epsilon", "C", gt=0, default=1.0)
SAMPLING = Field("sampling method that the code uses for each cohort", choices=SAMPLERS, default="poisson")
RELATION = Field("neighboring relation", choices=RELATIONS, default=NeighboringRelation.ADD_OR_REMOVE_ONE)
LATE_REPLY_POLICIES = {
    "count-as-zero": "left out: each counts as a zero update",
    "close-early": "the round closes once enough clients have replied",
    "replace": "other clients replace them",
}
PRIVACY_UNIT = Field("what two neighboring data sets differ in", default="client", max_length=80)
DELTA = Field("failure probability", "δ", gt=0, lt=1, default=None, none_means="min(1/N, the cap)", rounding=DOWN)
DELTA_CAP = Field("maximum delta of the policy", gt=0, lt=1, default=1e-6, none_means="no cap", rounding=DOWN)
RELEASES_PER_PERIOD = Field("runs on the same population that are released per period", ge=1, default=1)
GROUP_SIZE = Field("maximum number of units per person; adds the cost for that person", "k", ge=1, le=64, default=1)
TRIALS = Field(
    "distribution of the number of runs, if only the best is released; adds the cost of tuning",
    default=None,
    none_means="one run; examples: binomial:8,0.5, geometric:0.1",
    max_length=80,
)
WITHOUT_REPLACEMENT = Field("each unit gives at most one update per round", default=True)
ROUNDS_PER_RELEASE = Field("rounds between two released models", ge=1, default=1)
ADAPTIVE_CLIP = Field("the clip norm is learned from the same data", default=False)
LATE_REPLY_POLICY = Field(
    "how late or missing replies are handled", choices=LATE_REPLY_POLICIES, default="count-as-zero"
)
EPSILON = Field("target epsilon, in nats", "ε", gt=0, rounding=DOWN, example=2.0)

MECHANISMS = {"laplace": "Laplace", "gaussian": "Gaussian"}
TOTAL_EPSILON = Field("total epsilon of the budget, in nats", "ε", gt=0, rounding=DOWN, example=1.0)
TOTAL_DELTA = Field(
    "total failure probability", "δ", gt=0, lt=1, default=None, none_means="none, or from N", rounding=DOWN
)
QUERIES = Field("number of planned queries", "Q", ge=1, example=100)
QUERIES_USED = Field("number of queries already answered", ge=0, default=0)
SENSITIVITY = Field("sensitivity: maximum change of an answer by one unit", "Δ", gt=0, default=1.0, rounding=UP)
MECHANISM = Field("the noise", choices=MECHANISMS, default="laplace")
UNITS = Field("number of privacy units, for the delta policy", "N", ge=1, default=None, none_means="unknown")
WEIGHTS = Field("relative share of each query", gt=0, default=None, none_means="even", max_length=1000)
MAGNITUDE = Field("typical true answer, for relative errors", default=None, none_means="unknown")

LOADERS = {
    "poisson": "Poisson: each example joins each batch by its own coin",
    "truncated-poisson": "truncated Poisson: a batch that is too large is cut to a maximum size",
    "shuffled": "shuffled: each epoch takes every example once, in random order",
}
EXAMPLES = Field("number of examples in the data set; public", "N", ge=1, example=60_000)
BATCH_SIZE = Field("expected number of examples in a batch", "B", ge=1, le_field="examples", example=256)
EPOCHS = Field(
    "passes over the data; steps are E N / B, rounded up", "E", gt=0, le=1e6, default=None,
    none_means="steps are given", example=60,
)  # fmt: skip
STEPS = Field(
    "noisy steps of the optimizer", "T", ge=1, le=10**12, default=None, none_means="from epochs: E N / B, rounded up"
)
GIVEN_NOISE = Field(
    "noise standard deviation of a batch's sum, divided by the clip norm", "σ", ge=0, default=None, rounding=DOWN,
    none_means="the least that meets the target epsilon", example=1.1,
)  # fmt: skip
TARGET_EPSILON = Field(
    "target epsilon, in nats, instead of the noise multiplier", "ε", gt=0, default=None, rounding=DOWN,
    none_means="the noise multiplier is given",
)  # fmt: skip
LOADER = Field("how the loader forms batches", choices=LOADERS, default="poisson")
MAX_BATCH_SIZE = Field("size to which a Poisson batch is truncated", ge=1, default=None, none_means="no truncation")
RELATION_OF_LOADER = Field(
    "neighboring relation", choices=RELATIONS, default=None,
    none_means="add-or-remove-one; with shuffled batches zero-out",
)  # fmt: skip
RUN_DELTA = Field("failure probability, in (0, 1)", "δ", gt=0, lt=1, rounding=DOWN, example=1e-5)
