"""A Dask cluster that draws shards: the same integers as in one process, from more machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from epsilog.accounting.montecarlo.evidence.documents import Origin
from epsilog.terms import CheckError, EpsilogError, check
from epsilog.terms.extras import install_command


@contextmanager
def on_dask(scheduler: str | None = None, *, workers: int = 1) -> Iterator[None]:
    """Has every ``workers=None`` inside draw its shards on a Dask cluster.

    Args:
        scheduler: of a running cluster, ``HOST:PORT``; by default a cluster is started on this machine, and ended.
        workers: how many processes such a cluster has.

    Raises:
        CheckError: the cluster is not there, or a worker of it has other versions than are installed here: it would
            draw other numbers, which nobody could draw again.
        EpsilogError: the extra ``dask`` is not installed.
    """
    workers = check.integer(1)(workers=workers)
    from joblib import parallel_config

    try:
        import distributed
    except ImportError as error:
        raise EpsilogError(f"a Dask cluster needs the extra `dask`: {install_command('dask')} ({error})") from error
    dask: Any = distributed  # it states no types
    with ExitStack() as opened:
        at: Any = scheduler
        if at is None:
            cluster = dask.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            at = opened.enter_context(cluster)
        try:
            client = opened.enter_context(dask.Client(at))
        except (OSError, ValueError) as error:
            raise CheckError("scheduler", "HOST:PORT of a running cluster", f"{scheduler!r} ({error})") from error
        origins = client.run(Origin)
        if not origins:
            raise CheckError("scheduler", "of a cluster with workers", repr(scheduler))
        for worker, origin in origins.items():
            if origin != Origin():
                raise CheckError("scheduler", f"of workers with {Origin()}", f"{origin} at {worker}")
        opened.enter_context(parallel_config(backend="dask"))
        yield
