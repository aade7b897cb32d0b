"""Show sliders for a schedule and its certified cost in notebooks, by anywidget (extra ``notebook``)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from epsilog.plan import FederatedPlan, plan_federated
from epsilog.terms import EpsilogError
from epsilog.terms.extras import install_command

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise EpsilogError(f"sliders need the extra `notebook`: {install_command('notebook')} ({error})") from error

__all__ = ["FederatedSliders"]
_MODULE = Path(__file__).parents[1] / "server" / "static" / "notebook" / "epsilog-notebook.js"
_ASKED = ("population", "cohort_size", "rounds", "noise_multiplier", "delta")


class FederatedSliders(anywidget.AnyWidget):
    """The federated calculator, with the arguments of ``plan.plan_federated``; ``certified`` is their cost."""

    _esm = _MODULE.read_text(encoding="utf-8") if _MODULE.is_file() else ""
    population = traitlets.Int(50_000, min=1).tag(sync=True)
    cohort_size = traitlets.Int(500, min=1).tag(sync=True)
    rounds = traitlets.Int(200, min=1).tag(sync=True)
    noise_multiplier = traitlets.Float(1.2, min=0).tag(sync=True)
    delta = traitlets.Float(None, allow_none=True).tag(sync=True)
    certified = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, **values: Any) -> None:
        if not self._esm:
            raise EpsilogError("sliders need the built pages: install a wheel, or run hatch_build.py where Node is")
        super().__init__(**values)
        self.observe(self._certify, names=list(_ASKED))
        self._certify()

    @property
    def plan(self) -> FederatedPlan:
        """Return the plan for the values of the sliders; raise ``ValueError`` for an invalid value."""
        return plan_federated(**{name: getattr(self, name) for name in _ASKED})

    def _certify(self, _: Any = None) -> None:
        asked = {name: getattr(self, name) for name in _ASKED}
        if self.certified.get("asked") == asked:  # several values changed at once, and this is not the first
            return
        try:
            plan = self.plan
        except (ValueError, EpsilogError) as error:
            outcome: dict[str, Any] = {"trouble": str(error)}
        else:
            numbers = {"lower": plan.epsilon.lower, "upper": plan.epsilon.upper, "closed_form": plan.closed_form.total}
            outcome = {name: value if math.isfinite(value) else None for name, value in numbers.items()}  # JSON: no inf
            outcome["closed_form_note"] = str(plan.closed_form_note)
        self.set_trait("certified", {"asked": asked} | outcome)
