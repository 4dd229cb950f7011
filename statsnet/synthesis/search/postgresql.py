"""A PostgreSQL database as the storage of a search."""

from __future__ import annotations

from typing import Any

from statsnet.errors import UsageError

DRIVER = "postgresql+psycopg"
_SHOWN = "postgresql"
_UNHEARD = {"keepalives_idle": 10, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 40_000}
"""libpq's options: a server whose machine has gone, and which so far nobody has told, is given up after 40 s."""

_LOCK_LIMIT = "60s"
"""A worker makes the tables in a second; one whose machine has gone meanwhile may seem to hold the lock for hours."""

_LOCK = 0x5374617473  # any number that all workers share: "Stats"


def parsed(rest: str) -> Any:
    """SQLAlchemy's URL of what follows `postgresql://`. Raises UsageError, which does not repeat it."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(f"{DRIVER}://{rest}")
    except (ArgumentError, ValueError):
        raise UsageError(
            "the database's address can not be read",
            hint="postgresql://USER@HOST:PORT/DATABASE; in a password, write %40 for @, %3A for : and %2F for /",
        ) from None


def hidden(url: Any) -> str:
    """The address without passwords."""
    masked = {key: "***" for key in url.query if "password" in key}
    return str(url.update_query_dict(masked).set(drivername=_SHOWN).render_as_string(hide_password=True))


def opened_database(url: Any, *, connect_s: float) -> Any:
    """Optuna's storage. Its tables are made by one worker at a time: two at once would disturb each other.

    No connection stays open between calls. A trial takes minutes, in which a firewall may end one that nobody uses."""
    import sqlalchemy
    from optuna.storages import RDBStorage, get_storage

    limits = {"connect_timeout": int(connect_s), **_UNHEARD}
    connecting = {name: limit for name, limit in limits.items() if name not in url.query}
    options = {"poolclass": sqlalchemy.NullPool, "connect_args": connecting}
    engine = sqlalchemy.create_engine(url, **options)
    text = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # Optuna formats it
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"SET LOCAL lock_timeout = '{_LOCK_LIMIT}'"))
        connection.execute(sqlalchemy.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        return get_storage(RDBStorage(text, engine_kwargs=options))
