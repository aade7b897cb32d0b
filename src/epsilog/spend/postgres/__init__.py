"""A ledger in one schema of a PostgreSQL database: everything that is PostgreSQL's own."""

from epsilog.spend.postgres.store import PostgresStore, address_of, is_made

__all__ = ["PostgresStore", "address_of", "is_made"]
