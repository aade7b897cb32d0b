"""Whatever Flower started ends with whoever started Flower, whatever it waits for."""

import os
import subprocess
import sys
import time

import pytest

from epsilog.adapters.flower_processes import OWNER, is_running

APP = """
import threading
from epsilog.adapters.flower_processes import end_with_owner
end_with_owner()
print("begun", flush=True)
threading.Lock().acquire() and threading.Event().wait()
"""


@pytest.fixture
def owner():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def begun(environment):
    app = subprocess.Popen([sys.executable, "-c", APP], env=os.environ | environment, stdout=subprocess.PIPE)
    assert app.stdout.readline() == b"begun\n"
    return app


@pytest.mark.slow
def test_an_app_that_waits_for_ever_ends_with_its_owner_and_no_sooner(owner):
    with begun({OWNER: str(owner.pid)}) as app, begun({OWNER: ""}) as free:
        try:
            time.sleep(1.2)  # it has looked twice
            assert is_running(app.pid)
            owner.kill()  # and nobody asks for its exit code: what is left of it owns nothing
            app.wait(timeout=60)
            assert free.poll() is None  # the control: nobody's app goes on
        finally:
            app.kill()
            free.kill()
