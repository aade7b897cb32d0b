"""A run that epsilog did not train, reconciled from its logs: a mapping says which column is what, and what is claimed.

``verify_logs`` reads, checks and prices. Logs are their writer's word: nothing binds them to the run, and a report of
ours is more. Imported when first needed, since reading logs takes polars.
"""

from epsilog.verification.logs.claims import Claim
from epsilog.verification.logs.verification import REQUIRED, LogVerification, read_playbook, verify_logs

__all__ = ["REQUIRED", "Claim", "LogVerification", "read_playbook", "verify_logs"]
