"""A run that epsilog did not train, verified by its logs: a mapping says which column is what, and what is claimed.

``verify_logs`` reads and checks. Logs are their writer's word: nothing binds them to the run, and a report of ours is
more. Imported when first needed, since reading logs takes polars.
"""

from epsilog.verification.logs.reading import read_playbook, verify_logs

__all__ = ["read_playbook", "verify_logs"]
