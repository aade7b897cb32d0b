"""A ledger in one schema of a PostgreSQL database: everything that is PostgreSQL's own."""

from epsilog.ledger.postgres.store import PostgresStore, redact_url, schema_exists

__all__ = ["PostgresStore", "redact_url", "schema_exists"]
