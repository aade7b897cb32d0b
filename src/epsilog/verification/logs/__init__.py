"""Verify a run of another framework by its logs, with a mapping of their columns and a claim.

``verify_logs`` reads and checks them. Their writer attests the logs: nothing binds them to the run, unlike the records
of our own runs. Import this package only when needed, since it requires polars.
"""

from epsilog.verification.logs.reading import read_playbook, verify_logs

__all__ = [
    "read_playbook",
    "verify_logs",
]
