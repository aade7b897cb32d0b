"""A loop read off Opacus' own objects: what its sampler does, and what its accountant is told."""

import pytest
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, WeightedRandomSampler

from epsilog.adapters.opacus_loop import setup_of
from epsilog.plan import preflight
from epsilog.terms import CheckError, Verdict

N = 4000


def made(*, poisson=True, size=40, **options):
    rows = TensorDataset(torch.randn(N, 10), torch.randint(0, 2, (N,)))
    model = torch.nn.Linear(10, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(rows, batch_size=size, **options)
    _, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=1.1,
        max_grad_norm=1.0,
        poisson_sampling=poisson,
    )
    return optimizer, loader


def wrong(optimizer, loader, **options):
    found = preflight(setup_of(optimizer, loader, updates=200, **options), delta=1e-5)
    return found, {one.code for one in found.findings if one.verdict is Verdict.FAILED}


def test_what_opacus_recommends_holds():
    optimizer, loader = made(shuffle=True)
    setup = setup_of(optimizer, loader, updates=200)
    assert (setup.sampler, setup.examples, setup.batch_size, setup.parameters) == ("poisson", N, 40.0, 22)
    assert setup.noise_multiplier == 1.1
    found, codes = wrong(optimizer, loader)
    assert not codes
    assert found.holds


@pytest.mark.parametrize(("shuffle", "code"), [(True, "sampler/shuffled"), (False, "sampler/in-order")])
def test_without_poisson_sampling_nothing_is_amplified(shuffle, code):
    found, codes = wrong(*made(poisson=False, shuffle=shuffle))
    assert codes == {code, "believed/too-low"}
    assert found.cost.upper > 3 * found.believed.upper


def test_a_weighted_sampler_makes_batches_that_nobody_asked_for():
    """Opacus takes the rate from the length of the loader: issue 813 of its repository."""
    weighted = WeightedRandomSampler(torch.ones(N), num_samples=120)
    optimizer, loader = made(sampler=weighted)
    setup = setup_of(optimizer, loader, updates=200, sample_rate=40 / N)
    assert setup.batch_size == pytest.approx(N / 3)  # of 40 that were asked for
    _, codes = wrong(optimizer, loader, sample_rate=40 / N)
    assert codes == {"rate/too-low", "believed/too-low"}
    assert wrong(*made(poisson=False, sampler=weighted))[1] == {"sampler/weighted", "believed/nothing-proved"}


def test_accumulated_batches_are_several_samples():
    assert "batches/several-samples" in wrong(*made(), accumulation=2)[1]


def test_distributed_parts_are_workers():
    optimizer, _ = made()
    rows = TensorDataset(torch.randn(N, 10))
    loader = DataLoader(rows, batch_size=20, sampler=DistributedSampler(rows, num_replicas=2, rank=0))
    setup = setup_of(optimizer, loader, updates=200)
    assert (setup.workers, setup.sampler, setup.batch_size) == (2, "shuffled", 20.0)


def test_rows_that_a_distributed_sampler_repeats_are_read_off():
    optimizer, _ = made()
    rows = TensorDataset(torch.randn(N + 1, 10))
    for drop, repeated in ((False, True), (True, False)):
        sampler = DistributedSampler(rows, num_replicas=2, rank=0, drop_last=drop)
        assert setup_of(optimizer, DataLoader(rows, batch_size=20, sampler=sampler), updates=200).repeated is repeated


@pytest.mark.parametrize("poisson", [True, False])
def test_workers_that_all_go_through_everything_are_no_parts(poisson):
    """What each process of torch.distributed has whose loader was not dealt out."""
    optimizer, loader = made(poisson=poisson, shuffle=True)
    alone = preflight(setup_of(optimizer, loader, updates=200), delta=1e-5)
    optimizer.world_size = 2
    setup = setup_of(optimizer, loader, updates=200)
    assert (setup.workers, setup.own_shards, setup.batch_size) == (2, False, 40.0)
    assert preflight(setup, delta=1e-5).cost.upper > 1.2 * alone.cost.upper
    optimizer.world_size = 3
    sampler = DistributedSampler(loader.dataset, num_replicas=2, rank=0)
    with pytest.raises(CheckError, match="loader must be dealt to the 3 workers of the optimizer, got 2"):
        setup_of(optimizer, DataLoader(loader.dataset, batch_size=20, sampler=sampler), updates=200)


def test_a_clip_norm_that_adapts_is_refused():
    optimizer, loader = made()
    optimizer.target_unclipped_quantile = 0.5
    with pytest.raises(CheckError, match="optimizer must be one with a fixed clip norm"):
        setup_of(optimizer, loader, updates=1)


def test_what_is_not_known_is_refused():
    optimizer, loader = made()
    with pytest.raises(CheckError, match="optimizer must be a DPOptimizer"):
        setup_of(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1), loader, updates=1)

    class Mine(torch.utils.data.Sampler):
        def __iter__(self):
            return iter(range(N))

        def __len__(self):
            return N

    with pytest.raises(CheckError, match="loader must have one whose sampler is known, got Mine"):
        setup_of(optimizer, DataLoader(loader.dataset, batch_size=4, sampler=Mine()), updates=1)
