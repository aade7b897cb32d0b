"""A loop read off Opacus' own objects: what its sampler does, and what its accountant is told."""

import math
from types import SimpleNamespace

import pytest
import torch
from opacus import PrivacyEngine
from opacus.accountants import RDPAccountant
from opacus.optimizers import DPOptimizer
from opacus.schedulers import ExponentialGradClip, ExponentialNoise, LambdaGradClip, LambdaNoise, StepNoise
from opacus.schedulers.noise_scheduler import _NoiseScheduler
from opacus.utils.adaptive_clipping.adaptive_clipping_utils import PrivacyEngineAdaptiveClipping
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, WeightedRandomSampler

from epsilog.adapters.opacus_loop import read_training_loop
from epsilog.plan import preflight
from epsilog.terms import CheckError, Status

N = 4000


def made(*, poisson=True, size=40, clip=1.0, engine=PrivacyEngine, told=None, **options):
    return everything(poisson=poisson, size=size, clip=clip, engine=engine, told=told, **options)[1:3]


def everything(*, poisson=True, size=40, clip=1.0, engine=PrivacyEngine, told=None, module=None, **options):
    """Model, optimizer, loader and, with ghost clipping, the loss."""
    rows = TensorDataset(torch.randn(N, 10), torch.randint(0, 2, (N,)))
    model = torch.nn.Linear(10, 2) if module is None else module
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(rows, batch_size=size, **options)
    model, optimizer, *loss, loader = engine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=1.1,
        max_grad_norm=clip,
        poisson_sampling=poisson,
        **told or {},
    )
    return model, optimizer, loader, *loss


def wrong(optimizer, loader, **options):
    found = preflight(read_training_loop(optimizer, loader, updates=200, **options), delta=1e-5)
    return found, {one.code for one in found.findings if one.status is Status.FAILED}


def test_what_opacus_recommends_holds():
    optimizer, loader = made(shuffle=True)
    setup = read_training_loop(optimizer, loader, updates=200)
    assert (setup.sampler, setup.examples, setup.batch_size, setup.parameters) == ("poisson", N, 40.0, 22)
    assert setup.noise_multiplier == 1.1
    found, codes = wrong(optimizer, loader)
    assert not codes
    assert found.passed


@pytest.mark.parametrize(("shuffle", "code"), [(True, "sampler/shuffled"), (False, "sampler/in-order")])
def test_without_poisson_sampling_nothing_is_amplified(shuffle, code):
    found, codes = wrong(*made(poisson=False, shuffle=shuffle))
    assert codes == {code, "accountant-epsilon/too-low"}
    assert found.cost.upper > 3 * found.accountant_epsilon.upper


def test_a_weighted_sampler_makes_batches_that_nobody_asked_for():
    """Opacus takes the rate from the length of the loader: issue 813 of its repository."""
    weighted = WeightedRandomSampler(torch.ones(N), num_samples=120)
    optimizer, loader = made(sampler=weighted)
    setup = read_training_loop(optimizer, loader, updates=200, sample_rate=40 / N)
    assert setup.batch_size == pytest.approx(N / 3)  # of 40 that were asked for
    _, codes = wrong(optimizer, loader, sample_rate=40 / N)
    assert codes == {"sampling-rate/too-low", "accountant-epsilon/too-low"}
    assert wrong(*made(poisson=False, sampler=weighted))[1] == {"sampler/weighted", "accountant-epsilon/unproven"}


def test_accumulated_batches_are_several_samples():
    assert "batches/several-samples" in wrong(*made(), accumulation=2)[1]


def test_distributed_parts_are_workers():
    optimizer, _ = made()
    rows = TensorDataset(torch.randn(N, 10))
    loader = DataLoader(rows, batch_size=20, sampler=DistributedSampler(rows, num_replicas=2, rank=0))
    setup = read_training_loop(optimizer, loader, updates=200)
    assert (setup.workers, setup.sampler, setup.batch_size) == (2, "shuffled", 20.0)


def test_rows_that_a_distributed_sampler_repeats_are_read_off():
    optimizer, _ = made()
    rows = TensorDataset(torch.randn(N + 1, 10))
    for drop, repeated in ((False, True), (True, False)):
        sampler = DistributedSampler(rows, num_replicas=2, rank=0, drop_last=drop)
        assert (
            read_training_loop(optimizer, DataLoader(rows, batch_size=20, sampler=sampler), updates=200).repeated
            is repeated
        )


@pytest.mark.parametrize("poisson", [True, False])
def test_workers_that_all_go_through_everything_are_no_parts(poisson):
    """What each process of torch.distributed has whose loader was not dealt out."""
    optimizer, loader = made(poisson=poisson, shuffle=True)
    alone = preflight(read_training_loop(optimizer, loader, updates=200), delta=1e-5)
    optimizer.world_size = 2
    setup = read_training_loop(optimizer, loader, updates=200)
    assert (setup.workers, setup.own_shards, setup.batch_size) == (2, False, 40.0)
    assert preflight(setup, delta=1e-5).cost.upper > 1.2 * alone.cost.upper
    optimizer.world_size = 3
    sampler = DistributedSampler(loader.dataset, num_replicas=2, rank=0)
    with pytest.raises(CheckError, match="loader must be dealt to the 3 workers of the optimizer, got 2"):
        read_training_loop(optimizer, DataLoader(loader.dataset, batch_size=20, sampler=sampler), updates=200)


def test_what_is_not_known_is_refused():
    optimizer, loader = made()
    with pytest.raises(CheckError, match="optimizer must be a DPOptimizer of Opacus"):
        read_training_loop(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1), loader, updates=1)

    class Mine(torch.utils.data.Sampler):
        def __iter__(self):
            return iter(range(N))

        def __len__(self):
            return N

    with pytest.raises(CheckError, match="loader must have one with a known sampler, got Mine"):
        read_training_loop(optimizer, DataLoader(loader.dataset, batch_size=4, sampler=Mine()), updates=1)


def spent(optimizer, scheduler, every, updates, delta=1e-5):
    """What Opacus' own accountant has counted after a loop that steps the scheduler."""
    accountant = RDPAccountant()
    hook = accountant.get_optimizer_hook_fn(sample_rate=0.01)
    for done in range(1, updates + 1):
        hook(SimpleNamespace(noise_multiplier=optimizer.noise_multiplier, accumulated_iterations=1))
        if done % every == 0:
            scheduler.step()
    return accountant


@pytest.mark.parametrize(
    "scheduled",
    [
        lambda optimizer: ExponentialNoise(optimizer, gamma=0.95),
        lambda optimizer: LambdaNoise(optimizer, noise_lambda=lambda epoch: 1 / (1 + 0.1 * epoch)),
        lambda optimizer: StepNoise(optimizer, step_size=3, gamma=0.85),
    ],
    ids=["exponential", "lambda", "step"],
)
def test_a_scheduler_of_noise_is_priced_as_it_runs(scheduled):
    """What was read before it: the noise that the optimizer was made with, for the whole run."""
    optimizer, loader = made()
    constant = preflight(read_training_loop(optimizer, loader, updates=2000), delta=1e-5)
    scheduler = scheduled(optimizer)
    setup = read_training_loop(optimizer, loader, updates=2000, schedulers=[(scheduler, 100)])
    found = preflight(setup, delta=1e-5)
    assert optimizer.noise_multiplier == 1.1  # nothing was stepped
    accountant = spent(optimizer, scheduler, 100, 2000)
    assert [(rate, steps) for _, rate, steps in accountant.history] == [(0.01, steps) for steps, _ in setup.stages]
    assert [noise for noise, _, _ in accountant.history] == [noise for _, noise in setup.stages]
    assert found.passed
    assert constant.cost.upper < 0.6 * found.cost.lower
    theirs = accountant.get_epsilon(1e-5)  # a Renyi bound, which is looser
    assert found.cost.lower <= theirs
    assert 0.8 * theirs < found.cost.upper <= theirs


def test_a_scheduler_that_was_left_out_is_refused():
    optimizer, loader = made()
    noise, clip = ExponentialNoise(optimizer, gamma=0.9), ExponentialGradClip(optimizer, gamma=0.9)
    for left in ([], [(noise, 1)], [(clip, 1)]):
        with pytest.raises(CheckError, match="schedulers must list all schedulers of the optimizer"):
            read_training_loop(optimizer, loader, updates=10, schedulers=left)
    read_training_loop(optimizer, loader, updates=10, schedulers=[(noise, 1), (clip, 1)])
    other, loader = made()
    read_training_loop(other, loader, updates=10)  # they hold another optimizer
    with pytest.raises(CheckError, match="that hold this optimizer"):
        read_training_loop(other, loader, updates=10, schedulers=[(noise, 1)])
    with pytest.raises(CheckError, match="schedulers must list schedulers of noise or clip norm"):
        read_training_loop(other, loader, updates=10, schedulers=[(torch.optim.lr_scheduler.StepLR(other, 3), 1)])
    read_training_loop(
        other, loader, updates=10
    )  # a scheduler of learning rates has replaced its step, and is no matter


def test_a_scheduler_that_asks_for_anything_else_is_refused():
    class Mine(_NoiseScheduler):
        def get_noise_multiplier(self):
            return 1.1 if self.last_epoch == 0 else self.optimizer.param_groups[0]["lr"]

    class Lost(_NoiseScheduler):
        def get_noise_multiplier(self):
            return 1.1 if self.last_epoch == 0 else math.nan

    optimizer, loader = made()
    mine = Mine(optimizer)
    with pytest.raises(CheckError, match="with values that depend on steps, noise and clip norm alone, got Mine"):
        read_training_loop(optimizer, loader, updates=10, schedulers=[(mine, 1)])
    read_training_loop(optimizer, loader, updates=10, schedulers=[(mine, 10)])  # it is never stepped before the end
    optimizer, loader = made()
    with pytest.raises(CheckError, match="noise_multiplier must be finite and at least 0, got nan"):
        read_training_loop(optimizer, loader, updates=10, schedulers=[(Lost(optimizer), 1)])


def test_a_scheduler_of_the_clip_norm_costs_nothing_where_noise_follows_it():
    optimizer, loader = made()
    clip = LambdaGradClip(optimizer, scheduler_function=lambda epoch: 1 / (1 + epoch))
    setup = read_training_loop(optimizer, loader, updates=200, schedulers=[(clip, 10)])
    assert setup.noise_changes is None
    assert preflight(setup, delta=1e-5).passed


@pytest.mark.parametrize(
    ("clip", "told"), [([0.5, 0.5], {"clipping": "per_layer"}), (1.0, {"grad_sample_mode": "ghost"})]
)
def test_a_scheduler_of_the_clip_norm_is_refused_where_it_moves_the_noise_alone(clip, told):
    """These clip to norms that are held elsewhere: with gamma 0.5 the noise alone would halve."""
    _, optimizer, loader, *_loss = everything(clip=clip, told=told)
    assert preflight(read_training_loop(optimizer, loader, updates=200), delta=1e-5).passed
    scheduler = ExponentialGradClip(optimizer, gamma=0.5)
    with pytest.raises(CheckError, match="schedulers must list no scheduler of the clip norm"):
        read_training_loop(optimizer, loader, updates=200, schedulers=[(scheduler, 10)])
    del scheduler
    optimizer.max_grad_norm = 0.1
    with pytest.raises(CheckError, match=r"max_grad_norm must be at least the norm .* that gradients are clipped to"):
        read_training_loop(optimizer, loader, updates=200)


def test_a_ghost_module_that_keeps_an_older_clip_norm_is_refused():
    """make_private takes over a module that was made before, with its clip norm, and scales noise by the new one."""
    module, *_ = everything(clip=4.0, told={"grad_sample_mode": "ghost"})
    _, optimizer, loader, loss = everything(clip=1.0, told={"grad_sample_mode": "ghost"}, module=module)
    assert (loss.module.max_grad_norm, optimizer.max_grad_norm) == (4.0, 1.0)
    with pytest.raises(CheckError, match="max_grad_norm must be at least the norm 4"):
        read_training_loop(optimizer, loader, updates=200)


def test_clip_norms_that_adapt_are_refused_wherever_they_are_kept():
    _, optimizer, loader, loss = everything(engine=PrivacyEngineAdaptiveClipping, told={"grad_sample_mode": "ghost"})
    with pytest.raises(CheckError, match="optimizer must be one with a fixed clip norm"):
        read_training_loop(optimizer, loader, updates=200)
    del loss
    with pytest.raises(CheckError, match=r"one with a loss .* is held"):
        read_training_loop(optimizer, loader, updates=200)
    adapts = {"target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 8.0}
    adapts |= {"min_clipbound": 0.1, "unclipped_num_std": 2.0, "clipping": "adaptive"}
    optimizer, loader = made(told=adapts)
    with pytest.raises(CheckError, match="optimizer must be one with a fixed clip norm"):
        read_training_loop(optimizer, loader, updates=200)


def test_an_optimizer_whose_methods_are_not_opacus_own_is_refused():
    class Mine(DPOptimizer):
        def add_noise(self):
            pass

    optimizer, loader = made()
    optimizer.add_noise = lambda: None
    with pytest.raises(CheckError, match="optimizer must be one with Opacus' own add_noise"):
        read_training_loop(optimizer, loader, updates=1)
    optimizer, loader = made()
    mine = Mine(optimizer.original_optimizer, noise_multiplier=1.1, max_grad_norm=1.0, expected_batch_size=40)
    with pytest.raises(CheckError, match=r"optimizer must be a DPOptimizer of Opacus, .* got Mine"):
        read_training_loop(mine, loader, updates=1)


def test_steps_that_no_accountant_hears_of_are_refused():
    for hook in (None, lambda _: None):
        optimizer, loader = made()
        optimizer.attach_step_hook(hook)
        with pytest.raises(CheckError, match="sample_rate must be given where no accountant"):
            read_training_loop(optimizer, loader, updates=1)
        assert (
            read_training_loop(optimizer, loader, updates=1, sample_rate=0.01).accountant_sampling_probability == 0.01
        )


def test_the_rate_is_what_make_private_told_whatever_loader_is_used():
    optimizer, loader = made(size=40)
    _, larger = made(size=400)
    setup = read_training_loop(optimizer, larger, updates=200)
    assert (setup.accountant_sampling_probability, setup.batch_size) == (0.01, 400.0)
    assert wrong(optimizer, larger)[1] == {"sampling-rate/too-low", "accountant-epsilon/too-low"}
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=8, optimizer=optimizer) as split:
        assert read_training_loop(optimizer, split, updates=200) == read_training_loop(optimizer, loader, updates=200)


def test_what_objects_cannot_show_is_listed():
    optimizer, loader = made()
    found = preflight(read_training_loop(optimizer, loader, updates=200), delta=1e-5)
    unseen = {one.check for one in found.findings if one.status is Status.NOT_CHECKED}
    assert unseen == {"gradients", "changes", "randomness", "other-uses", "earlier-steps"}
