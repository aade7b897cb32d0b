"""Sliders in a notebook, without one: what they say is certified, and of the values that they show."""

import json
import subprocess
import sys

import pytest

from epsilog import plan
from epsilog.adapters import notebook
from epsilog.terms import CheckError, EpsilogError
from epsilog.terms.extras import install_command

RUN = {"population": 50_000, "cohort_size": 500, "rounds": 20, "noise_multiplier": 1.2, "delta": 1e-6}


built = pytest.mark.skipif(not notebook._MODULE.is_file(), reason="the pages are not built: run python hatch_build.py")


@pytest.fixture(scope="module")
def sliders():
    return notebook.FederatedSliders(**RUN)


def sent(widget):
    """What the browser gets, through JSON as it goes."""
    state = {name: value for name, value in widget.get_state().items() if not name.startswith("_")}
    return json.loads(json.dumps(state, allow_nan=False))


@built
@pytest.mark.slow
def test_what_is_shown_is_the_plan_of_the_values_shown(sliders):
    for change in ({"rounds": 40}, {"noise_multiplier": 2.5, "cohort_size": 100}, {"delta": None}, RUN):
        sliders.set_state(change)  # as a browser does
        told, asked = sent(sliders), {name: getattr(sliders, name) for name in RUN}
        found = plan.plan_federated(**asked)
        assert sliders.plan == found
        assert told["certified"] == {
            "asked": asked,
            "lower": found.epsilon.lower,
            "upper": found.epsilon.upper,
            "closed_form": found.closed_form.total,
            "closed_form_note": str(found.closed_form_note),
        }
    with pytest.raises(notebook.traitlets.TraitError):
        sliders.certified = {}  # nobody but the plan says what is certified


@built
def test_no_privacy_and_no_schedule_are_said(sliders):
    sliders.noise_multiplier = 0.0
    assert sent(sliders)["certified"]["upper"] is None
    sliders.set_state(RUN | {"cohort_size": 60_000})
    assert sent(sliders)["certified"] == {
        "asked": RUN | {"cohort_size": 60_000},
        "trouble": "cohort_size must be in [1, 50000], got 60000",
    }
    with pytest.raises(CheckError, match="cohort_size"):
        _ = sliders.plan
    with pytest.raises(notebook.traitlets.TraitError):
        sliders.rounds = 0
    sliders.set_state(RUN)
    assert "trouble" not in sent(sliders)["certified"]


@built
def test_a_notebook_gets_the_widget_and_its_one_module(sliders):
    data, _ = sliders._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == sliders.model_id
    module = str(sliders._esm)
    assert "export" in module[-200:]
    assert not [call for call in ("fetch(", "import(", "XMLHttpRequest", "eval(") if call in module]
    assert len(module) < 60_000


def test_where_the_pages_are_not_built_the_refusal_says_so(monkeypatch):
    monkeypatch.setattr(notebook.FederatedSliders, "_esm", "")
    with pytest.raises(EpsilogError, match="need the built pages"):
        notebook.FederatedSliders()


@pytest.mark.slow
def test_without_the_extra_the_refusal_says_so_and_epsilog_needs_none_of_it():
    code = """
import sys
import epsilog, epsilog.adapters, epsilog.plan
assert not {"anywidget", "ipywidgets", "IPython", "traitlets"} & set(sys.modules)
sys.modules["anywidget"] = None
import epsilog.adapters.notebook
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"sliders need the extra `notebook`: {install_command('notebook')}" in done.stderr
