"""Tierra: a database for machines with two speeds of memory.

>>> import tierra
>>> db = tierra.connect()
>>> db.sql("SELECT 6 * 7 AS answer").fetchone()
(42,)

A connection answers SQL with a `Result`, whose rows are read as they are asked for: `fetchall()`, `arrow()`, `df()`, `pl()`,
`numpy()`, or any library that knows the Arrow PyCapsule interface. The module follows PEP 249.
"""

import os as _os

from ._cursor import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Cursor,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from . import _frames
from ._tierra import (
    Connection,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    Prepared,
    ProgrammingError,
    Result,
    Warning,
    __version__,
    after_fork as _after_fork,
    connect,
)

apilevel = "2.0"
"""The version of PEP 249."""
threadsafety = 2
"""Threads may share the module and connections."""
paramstyle = "qmark"
"""Parameters are ?; $1 is understood as well."""

Result.arrow = _frames.arrow  # type: ignore[method-assign]
Result.reader = _frames.reader  # type: ignore[method-assign]
Result.df = _frames.df  # type: ignore[method-assign]
Result.pl = _frames.pl  # type: ignore[method-assign]
Result.numpy = _frames.numpy  # type: ignore[method-assign]

# The child of a fork has none of the threads that run queries, and must not touch the parent's database.
_os.register_at_fork(after_in_child=_after_fork)

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "Prepared",
    "ProgrammingError",
    "Result",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
