"""A ledger in one schema of a PostgreSQL database: everything that is PostgreSQL's own."""

from epsilog.spend.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
