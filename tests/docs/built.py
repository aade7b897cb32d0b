"""The docs as Sphinx builds them, warnings as errors: as `make docs` left them, or once for all tests of a run."""

import fcntl
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def hatch_build():
    """What builds the pages and the docs."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built_in(tmp_path_factory):
    """The folder of docs that are built of these sources; of several workers one builds, and the others wait."""
    build = hatch_build()
    if build.docs_are_built():
        return build.BUILT_DOCS
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    out = shared / "docs"
    with (shared / "docs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "objects.inv").is_file():
            build.sphinx_build(out, "-t", "served", "-t", "unsearched")
    return out
