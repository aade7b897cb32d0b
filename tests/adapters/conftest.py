"""What needs a framework is collected only where the framework is: see ``scripts/peer-environments``."""

from importlib.util import find_spec

_NEEDS = {"in_opacus": "opacus", "in_flower": "flwr", "in_flax": "flax"}

collect_ignore = [folder for folder, framework in _NEEDS.items() if find_spec(framework) is None]
