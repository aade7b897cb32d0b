"""Records of runs whose clip norm follows from noisy counts; drawn, not trained."""

import numpy as np

from epsilog.schemes import ClientLevelAdaptiveClip
from epsilog.terms import CustodyRecord, RoundRecord

COUNTING = ClientLevelAdaptiveClip(200, 0.2, 40, 0.5, 0.5, 0.2, 5.0, 3.0)


def counted(share, seed=1, scheme=COUNTING):
    """Both kinds of records of one run, with a share of the planned noise on its counts."""
    rng = np.random.default_rng(seed)
    public, private, clip_norm = [], [], scheme.clip_norm
    for number in range(1, scheme.rounds + 1):
        ids = tuple(np.flatnonzero(rng.random(scheme.clients) < scheme.sampling_probability).tolist())
        silent = int(rng.integers(0, 3))
        answered = len(ids) - silent
        clipped = int(rng.integers(0, answered + 1))
        above = answered / 2 - clipped + share * rng.normal(0, scheme.quantile_noise)
        told = 0.5 + above / (scheme.sampling_probability * scheme.clients)
        stddev = scheme.noise_multiplier * clip_norm
        padding = tuple(rng.normal(0, stddev, 16).tolist())
        public.append(RoundRecord(number, "a" * 64, stddev, clip_norm, padding, 0.5, 0.5, told))
        private.append(CustodyRecord(number, ids, clip_norm, clipped / answered, non_responders=silent))
        clip_norm = scheme.next_clip_norm(clip_norm, told)
    return tuple(private), tuple(public)
