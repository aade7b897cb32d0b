"""Rules over records and logs that are made up in memory: each takes what its test makes up."""

from epsilog.schemes import ClientLevelCentral
from epsilog.terms import Guarantee, NeighboringRelation
from epsilog.verification import Claim, Evidence, participation
from epsilog.verification.evidence import FALSE_ALARM
from epsilog.verification.hidden import weigh_at
from epsilog.verification.rules import RULES


def claim_of(scheme, divisor=None):
    return Claim(Guarantee(2.0, 1e-5, NeighboringRelation.ADD_OR_REMOVE_ONE, "client", scheme.clients), scheme, divisor)


def of_records(scheme, records=(), custody=None, false_alarm_rate=FALSE_ALARM):
    """A run whose lists everybody may see, so that a rule's level is what is asked for."""
    lists = None if custody is None else tuple(custody)
    return Evidence(claim_of(scheme), tuple(records), lists, public=True, false_alarm_rate=false_alarm_rate)


def of_logs(logs, scheme, false_alarm_rate=FALSE_ALARM):
    return Evidence(claim_of(scheme), logs=logs, public=True, false_alarm_rate=false_alarm_rate)


def apply(name, evidence):
    """What one rule finds, or that it lacks its evidence."""
    (rule,) = [one for one in RULES if one.id == name]
    return tuple(rule.apply(evidence))


def applied(name, evidence):
    (found,) = apply(name, evidence)
    return found


def on_logs(name, logs, scheme, false_alarm_rate=FALSE_ALARM):
    """What one rule finds in logs that everybody may see."""
    return applied(name, of_logs(logs, scheme, false_alarm_rate))


def check_custody(custody, records, scheme):
    return applied("custody", of_records(scheme, records, custody))


def check_participation(custody, scheme, *, false_alarm_rate=FALSE_ALARM):
    evidence = of_records(scheme, (), custody)
    if false_alarm_rate == FALSE_ALARM:
        return applied("participation", evidence)
    at = participation.check_participation_at
    return weigh_at(false_alarm_rate, lambda level: at(evidence, level), warned=FALSE_ALARM)


def check_noise(records, *, noise_stddev, false_alarm_rate=FALSE_ALARM):
    scheme = ClientLevelCentral(10, 0.5, max(1, len(records)), clip_norm=1.0, noise_multiplier=noise_stddev)
    return applied("noise", of_records(scheme, records, false_alarm_rate=false_alarm_rate))


def check_clipping(records, scheme):
    return applied("clipping", of_records(scheme, records))


def check_norms(custody, records, scheme):
    return applied("norms", of_records(scheme, records, custody))
