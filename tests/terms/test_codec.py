"""Every term survives a round trip, and nothing unknown is read silently."""

import dataclasses
import math
from enum import StrEnum

import pytest
import rfc8785
from hypothesis import example, given, settings, strategies as some
from tests.extent import amount

from epsilog import mechanisms, schemes, terms
from epsilog.terms import NeighboringRelation, codec
from epsilog.terms.disclosed import Private

SAMPLES = [
    mechanisms.Gaussian(1.0, sensitivity=0.5),
    mechanisms.Laplace(2.0),
    mechanisms.DiscreteGaussian(3.5, sensitivity=2),
    mechanisms.DiscreteLaplace(1.5),
    mechanisms.RandomizedResponse(0.5, categories=4),
    mechanisms.ExponentialMechanism(0.3, monotone=True),
    mechanisms.Staircase(0.5),
    mechanisms.Staircase(0.5, 0.25, sensitivity=3.0),
    mechanisms.ReportNoisyMax(0.3, "laplace", monotone=True),
    mechanisms.SparseVector(2.0, 8.0, positives=4),
    mechanisms.MixtureOfGaussians(2.0, (0.0, 1.0, 1.0, 3.5), (0.7, 0.1, 0.1, 0.1)),
    mechanisms.PureDP(0.1),
    mechanisms.ApproximateDP(0.5, 1e-6),
    mechanisms.ZeroConcentratedDP(0.02),
    mechanisms.GaussianDP(0.7),
    mechanisms.PoissonSampled(mechanisms.Gaussian(1.0), 0.01),
    mechanisms.FixedSizeSampled(mechanisms.Gaussian(1.0), 30, 2400),
    mechanisms.TruncatedPoissonSampled(mechanisms.Gaussian(1.0), 0.01, 10_000, 120),
    mechanisms.BallsInBins(mechanisms.Gaussian(1.0), bins=10, epochs=3),
    mechanisms.Shuffled(mechanisms.RandomizedResponse(0.5), 1000),
    mechanisms.Grouped(mechanisms.Laplace(2.0), 4),
    mechanisms.NegativeBinomialTrialCount(0.5, 0.125),
    mechanisms.PoissonTrialCount(20.0),
    mechanisms.BinomialTrialCount(50, 0.5),
    mechanisms.BestOfTrials(mechanisms.Gaussian(2.0), mechanisms.NegativeBinomialTrialCount(1.0, 0.1)),
    mechanisms.ToeplitzStrategy((1.0, 0.5, 0.25)),
    mechanisms.DenseStrategy(((1.0,), (0.5, 1.0))),
    mechanisms.TreeAggregationStrategy(),
    mechanisms.FullParticipation(),
    mechanisms.BoundedParticipation(4, min_separation=10),
    mechanisms.BallsInBinsParticipation(100),
    mechanisms.MinSepParticipation(16, 0.05, warm_start=True),
    mechanisms.CyclicPoissonParticipation(16, 0.5),
    mechanisms.RandomAllocationParticipation(3),
    mechanisms.MatrixMechanism(
        mechanisms.ToeplitzStrategy((1.0, 0.5)), mechanisms.BallsInBinsParticipation(10), 100, 3.0
    ),
    mechanisms.MatrixMechanism(mechanisms.DenseStrategy(((1.0,), (0.5, 1.0))), mechanisms.FullParticipation(), 2, 3.0),
    mechanisms.Composed([mechanisms.PureDP(0.1), mechanisms.Repeated(mechanisms.Laplace(10.0), 3)]),
    mechanisms.Composed([]),
    mechanisms.Repeated(mechanisms.PoissonSampled(mechanisms.Gaussian(1.1), 0.01), 10**7),
    terms.Guarantee(4.0, 1e-5, NeighboringRelation.REPLACE_ONE, "school", 2410),
    terms.Interval(
        0.5, math.inf, "a method", NeighboringRelation.ZERO_OUT, None, ("a", "b"), "epsilon", (("delta", 1e-5),)
    ),
    terms.Interval(0.5, 1.0, "inf", NeighboringRelation.ZERO_OUT, assumptions=("inf",), given=(("inf", math.inf),)),
    schemes.ClientLevelCentral(2410, 0.1, 100, 0.5, 1.2),
    schemes.ClientLevelAdaptiveClip(2410, 0.1, 100, 0.5, 0.5, 0.2, 12.0, 1.2),
    schemes.ClientLevelClientSide(2410, 60, 30, 4, 1.0, 1.5),
    schemes.ClientLevelCorrelatedNoise(2410, 24, 100, 8, 1.0, 1.5),
    schemes.ClientLevelBufferedNoise(2410, 24, 100, (0.95, 0.5), (0.3, 0.1), 1.0, 1.5),
    schemes.ClientLevelDistributed(2410, 60, 50, 30, 4, 1.0, 0.001, 24, 1.5),
    schemes.ExampleLevelClientSide(2410, 60, 30, 4, 0.25, 1, 1.0, 1.5),
    terms.RoundRecord(1, "ab" * 32, 0.6, 0.5, (0.25, -1.5), 0.5, 0.75),
    terms.RoundRecord(1, "ab" * 32, 0.6, 0.5, (0.25, -1.5), None, None),
    terms.RoundRecord(1, "ab" * 32, 0.6, 0.5, (0.25, -1.5), 0.5, 0.75, 0.48),
    terms.CustodyRecord(1, (3, 5, 9), 0.5, 1.0, non_finite_updates=2, unusable_rows=3),
]


def stored_as(term):
    """The JSON of a term, also of one that only a private file may hold."""
    return codec.private_json(term) if isinstance(term, Private) else codec.to_json(term)


@pytest.mark.parametrize("term", SAMPLES, ids=lambda term: type(term).__name__)
def test_round_trip_through_canonical_bytes(term):
    import json

    stored = codec.encode_canonical(stored_as(term))
    assert codec.from_json(json.loads(stored)) == term
    assert codec.encode_canonical(stored_as(codec.from_json(json.loads(stored)))) == stored


class Word(StrEnum):
    ONE = "one"


VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5) | some.sampled_from(Word),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def spelled(write, value):
    """What it writes, or that it refuses."""
    try:
        return write(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return "refused"


@pytest.mark.slow
@settings(max_examples=amount(15, 100))
@given(VALUES)
@example({"\U00010000": 1, "\uffff": 2})  # in another order by UTF-16 units than by characters
@example({"b": '\x00\x1f\x7f"\\/\u2028\n\r\t\b\f', "a": [2**53 - 1, -(2**53) + 1, -0.0, 1e16, 1e-7, 5e-324]})
@example([1e-4, 9.9999e-05, 0.30000000000000004, 4503599627370496.5, 9007199254740993.0, 1.5e300])
@example([2**53])
@example([math.nan])
@example({"a": "\ud800"})
@example({Word.ONE: Word.ONE, "a": (True, None)})
def test_canonical_bytes_are_those_of_rfc_8785(value):
    assert spelled(codec.encode_canonical, value) == spelled(rfc8785.dumps, value)


def test_every_type_has_a_sample_and_a_tag():
    assert {type(sample) for sample in SAMPLES} == set(codec.type_of.values())


def test_whole_floats_and_integers_have_the_same_bytes():
    assert codec.encode_canonical(codec.to_json(mechanisms.Gaussian(1))) == codec.encode_canonical(
        codec.to_json(mechanisms.Gaussian(1.0))
    )


NOISE = {"type": "gaussian", "noise_multiplier": 1.0, "sensitivity": 1.0}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"v": False, "term": NOISE}, "v must be"),
        ({"v": 0.0, "term": NOISE}, "v must be"),
        ({"v": 1, "term": NOISE | {"noise_multiplier": 10**400}}, "finite number"),
        *(({"v": 1, "term": NOISE | {"type": kind}}, "type must be") for kind in (["gaussian"], {})),
        ({"v": 0, "term": {"type": "pure", "epsilon": 1}}, "v must be 1"),
        ({"term": {"type": "pure", "epsilon": 1}}, "document must be"),
        ({"v": 1, "term": {"type": "purr-dp", "epsilon": 1}}, "purr-dp"),
        ({"v": 1, "term": {"type": "pure"}}, r"missing fields \['epsilon'\]"),
        ({"v": 1, "term": {"type": "pure", "epsilon": 1, "delta": 0}}, r"unknown fields \['delta'\]"),
        ({"v": 1, "term": {"type": "pure", "epsilon": -1}}, "epsilon must be finite and at least 0, got -1"),
        ({"v": 1, "term": {"type": "pure", "epsilon": "inf"}}, "epsilon must be finite"),
        ({"v": 1, "term": {"type": "pure", "epsilon": True}}, "epsilon must be a number"),
        ({"v": 1, "term": [1]}, "JSON object"),
        ({"v": 1, "term": {"type": "repeated", "release": 3, "count": 2}}, "release must be a Release"),
    ],
)
def test_bad_documents_are_refused_by_name(document, says):
    with pytest.raises(ValueError, match=says):
        codec.from_json(document)


def test_a_changed_field_changes_the_fingerprint():
    one, other = mechanisms.Gaussian(1.0), dataclasses.replace(mechanisms.Gaussian(1.0), noise_multiplier=1.0 + 1e-15)
    assert codec.hash_canonical(codec.to_json(one)) != codec.hash_canonical(codec.to_json(other))


def test_a_document_nested_beyond_reading_is_refused():
    term = NOISE
    for _ in range(5000):
        term = {"type": "repeated", "release": term, "count": 1}
    with pytest.raises(ValueError, match="nested too deeply"):
        codec.from_json({"v": 1, "term": term})


def test_json_is_read_in_one_way_or_not_at_all():
    assert codec.parse_json(b'{"a": [0.5, -1e300, 3, "\xc3\xa9", null]}') == {"a": [0.5, -1e300, 3, "\u00e9", None]}
    for content in (b"[1e999]", b"[NaN]", b"[-Infinity]", b'{"a": 1, "a": 1}', b"[1" + b"0" * 400 + b"]", b'["\xff"]'):
        with pytest.raises(ValueError, match=r"."):
            codec.parse_json(content)
    with pytest.raises(ValueError, match="nested too deeply"):
        codec.parse_json(b"[" * 100_000)


def test_an_answer_is_told_by_its_fields_and_a_term_in_it_by_its_tag():
    @dataclasses.dataclass(frozen=True)
    class Answer:
        upper: float
        release: object
        parts: tuple = ()

    noise = mechanisms.Gaussian(2.0)
    found = codec.plain(Answer(math.inf, noise, (Answer(1.0, NeighboringRelation.ZERO_OUT), None)))
    inner = {"upper": 1.0, "release": "zero-out", "parts": []}
    assert found == {"upper": "inf", "release": codec.encode(noise), "parts": [inner, None]}
    private = next(each for each in SAMPLES if isinstance(each, Private))
    with pytest.raises(TypeError, match="is private"):
        codec.plain(Answer(1.0, private))
