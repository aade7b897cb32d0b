"""A registry record states what the report states, and is made for deployments alone."""

import json

import pytest
from tests.reports.drawn import finish, local, make_plan

from epsilog.reports import PUBLICATION_FIELDS, build_registry_record, render_record
from epsilog.reports.schema import check_record
from epsilog.schemes import ClientLevelClientSide
from epsilog.terms import CheckError, NeighboringRelation, RecordError, codec
from epsilog.terms.messages import sentence

ABOUT = {
    "organization": "Example Org",
    "description": "A model of scores.",
    "region": "Netherlands",
    "publication_date": "2026-12-01",
}


def whole(z):
    return ClientLevelClientSide(150, 4, 3, 2, 1.0, z)


def test_a_record_is_valid_and_agrees_with_its_report(real):
    record = build_registry_record(real, ABOUT)
    inner, claim = record["deployment"], real["claim"]
    assert inner["privacy_loss"]["privacy_parameters"] == {
        "epsilon": claim["guarantee"]["epsilon"],
        "delta": claim["guarantee"]["delta"],
    }
    assert inner["privacy_loss"]["privacy_parameters"]["epsilon"] >= claim["epsilon"]["lower"]
    assert inner["basic"]["data_curators"] == ["Example Org"]
    assert inner["deployment_model"]["model_name"] == "Central"
    assert json.loads(render_record(record)) == record
    notes = inner["administrative"]["notes"]
    for told in ("certified upper bound", claim["guarantee"]["relation"], real["evidence"]["plan_hash"], "Ledger head"):
        assert told in notes
    assert record["tier"] == 1
    every = {name: (field.choices or ("2026-12-01",))[0] for name, field in PUBLICATION_FIELDS.items()}
    del every["organization"], every["retention"]
    assert build_registry_record(real, every)["tier"] == 3


PLACES = {
    "organization": ("basic", "data_curators", 0),
    "description": ("basic", "description"),
    "region": ("basic", "data_product_region"),
    "sector": ("basic", "data_product_sector"),
    "publication_date": ("basic", "publication_date"),
    "sources": ("administrative", "sources"),
    "release_type": ("deployment_model", "release_type"),
    "data_source_type": ("deployment_model", "data_source_type"),
    "access_type": ("deployment_model", "access_type"),
    "data_domain": ("dp_variant", "data_domain"),
    "unprotected_quantities": ("dp_variant", "unprotected_quantities"),
    "tuning": ("implementation", "preprocessing_and_hyperparameter_tuning"),
    "justification": ("implementation", "justification"),
}


def test_every_field_and_fact_has_its_place_in_a_record(real):
    said = {
        name: (field.choices or ("2026-12-01" if name.endswith("date") else f"the {name}",))[0]
        for name, field in PUBLICATION_FIELDS.items()
    }
    said |= {name: real["publication"]["stated"][name] for name in ("organization", "retention")}
    inner = build_registry_record(real, said)["deployment"]
    for name, place in PLACES.items():
        found = inner
        for step in place:
            found = found[step]
        assert found == said[name], name
    assert said["unit_details"] in inner["privacy_loss"]["privacy_unit_details"]
    assert real["claim"]["statement"] in inner["privacy_loss"]["privacy_unit_details"]
    assert real["claim"]["delta_rationale"] in inner["privacy_loss"]["privacy_parameters_details"]
    assert inner["privacy_loss"]["privacy_unit"] == real["claim"]["guarantee"]["privacy_unit"]
    assert inner["basic"]["intended_use"] == real["identity"]["purpose"]
    assert inner["accounting"]["post_processing"]
    assert sentence(real["claim"]["epsilon"]["method"]) in inner["accounting"]["composition"]
    for party in real["claim"]["parties"]:
        assert f"{party['party']} sees {party['view']}: {party['protection']}" in inner["deployment_model"]["actors"]
    for name, value in real["mechanism"]["scheme"].items():
        assert str(value) in inner["implementation"]["mechanisms"], name
    assert inner["administrative"]["registry_authors"] == [real["identity"]["owner"]]
    assert set(PUBLICATION_FIELDS) - set(PLACES) == {
        "unit_details",
        "contact",
        "prior_releases",
        "retention",
        "review_date",
    }


def test_only_deployments_get_a_record(report, real):
    with pytest.raises(RecordError, match="simulation"):
        build_registry_record(report, ABOUT)
    with pytest.raises(RecordError, match="requires description, region, publication_date"):
        build_registry_record(real, {})
    failed = real | {"verification": real["verification"] | {"status": "failed"}}
    with pytest.raises(RecordError, match="no guarantee"):
        build_registry_record(failed, ABOUT)
    with pytest.raises(CheckError, match="as the report binds it"):
        build_registry_record(real, ABOUT | {"organization": "Somebody Else"})


def test_the_registrys_schema_refuses_what_it_does_not_know(real):
    record = build_registry_record(real, ABOUT)
    for spoilt in (
        record | {"surprise": 1},
        record | {"tier": 0},
        record | {"status": "Fine"},
        {name: value for name, value in record.items() if name != "url_slug"},
        record | {"deployment": {}},
        record | {"deployment": record["deployment"] | {"basic": {"name": "x"}}},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            check_record(spoilt)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "model"), [(local, "Federated"), (whole, "Local")])
def test_client_noise_is_local_only_if_clients_are_protected_from_everyone(tmp_path, scheme, model):
    plan = make_plan(scheme, simulation=False, relation=NeighboringRelation.ZERO_OUT)
    finish(tmp_path / "run", tmp_path / "ledger.db", plan)
    report = codec.parse_json((tmp_path / "run" / "report.json").read_bytes())
    assert build_registry_record(report, ABOUT)["deployment"]["deployment_model"]["model_name"] == model
