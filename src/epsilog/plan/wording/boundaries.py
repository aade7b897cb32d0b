"""What a calculation covers, and what it does not."""

from __future__ import annotations

from epsilog.terms import Finding, Verdict, check

_SEVERAL = "One unit may give several updates a round: this price does NOT cover that. Clip their sum as one update."
_LEARNT = "The clip norm is learnt from the data: its noisy count is one more release and is NOT in this price."
_FIXED = "The clip norm is fixed beforehand, or learnt from public data only."
_LATE = {
    "zero": (
        "limits/late-replies",
        "A late or missing reply counts as a zero update. m counts all who are invited, those who will not reply too: "
        "q is m/N, and a lower share that was observed may never be claimed, since who replies may depend on the data. "
        "Who opts out, or is away, is in fewer rounds and loses no more.",
    ),
    "first": (
        "limits/round-closes-early",
        "The round closes once enough have replied, so that one unit's reply keeps another's out: the sum then moves "
        "by up to two clip norms, and NOT by the one that is priced. Wait, and count those who stay away as zero.",
    ),
    "again": (
        "limits/invited-again",
        "Others are invited in the place of those who do not reply: the chance to be in a round is then above m/N, and "
        "one unit's reply keeps another's out. This price does NOT cover that. Invite more from the start, count them "
        "all in m, and those who stay away as zero.",
    ),
}
_TRUSTED = (
    "The server adds the noise and is trusted; it has no guarantee against itself. Client losses, counts and private "
    "evaluations that are shown are further releases."
)


def limits(
    *,
    sampling: str,
    without_replacement: bool,
    rounds_per_release: int,
    adaptive_clip: bool,
    privacy_unit: str,
    late_replies: str = "zero",
) -> tuple[Finding, ...]:
    """What a federated calculation covers (passed) and what it does not (warned), for the record.

    Args:
        sampling: "poisson", "fixed-size" or "balls-in-bins".
        without_replacement: whether one unit gives at most one update a round.
        rounds_per_release: rounds between two models that leave the server.
        adaptive_clip: whether the clip norm is learnt from the same data.
        privacy_unit: what one neighbour differs in.
        late_replies: "zero", "first" or "again": what becomes of late or missing replies.
    """
    code, late = _LATE[check.one_of(tuple(_LATE))(late_replies=late_replies)]
    rounds_per_release = check.integer(1)(rounds_per_release=rounds_per_release)
    scheme = {
        "poisson": "every unit joins each round by its own coin; nobody is drawn again to fill a round",
        "fixed-size": "every round draws exactly m units, each set equally likely",
        "balls-in-bins": "every unit is put into one round of each epoch, the same one throughout",
    }[sampling]
    covers = (
        f"Covers what anyone learns from the models about one {privacy_unit}, as long as {scheme} and who took part "
        "stays hidden. Against whoever knows who took part, only the unamplified number holds."
    )
    return (
        Finding("limits/participation-hidden", Verdict.PASSED, covers),
        Finding("limits/one-update", Verdict.PASSED, "One unit gives at most one clipped update a round.")
        if without_replacement
        else Finding("limits/several-updates", Verdict.WARNED, _SEVERAL),
        Finding("limits/models-published", Verdict.PASSED, _published(rounds_per_release)),
        Finding("limits/clip-learnt", Verdict.WARNED, _LEARNT)
        if adaptive_clip
        else Finding("limits/clip-fixed", Verdict.PASSED, _FIXED),
        Finding(code, Verdict.PASSED if late_replies == "zero" else Verdict.WARNED, late),
        Finding("limits/server-trusted", Verdict.PASSED, _TRUSTED),
    )


def _published(rounds_per_release: int) -> str:
    if rounds_per_release == 1:
        return "Every round's model may be published; that is what is priced."
    return f"A model leaves the server every {rounds_per_release} rounds; all rounds are priced all the same."


def query_limits(mechanism: str) -> tuple[str, ...]:
    """What must hold of queries and answers for their price to hold.

    Args:
        mechanism: "laplace" or "gaussian".
    """
    norm = "L1" if mechanism == "laplace" else "L2"
    return (
        f"The sensitivity bounds, in {norm} norm, what one unit moves an answer by on any data; it was not measured.",
        "Every answer that leaves is one of the queries planned, repeated, failed and discarded ones too.",
        "Each answer has noise of its own from a secret source, and nothing else is told that depends on the data.",
    )
