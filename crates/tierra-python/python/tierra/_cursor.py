"""The parts of PEP 249 that are no more than Python: cursors, type objects and constructors."""

from __future__ import annotations

import datetime as _datetime
from collections.abc import Iterator, Sequence
from typing import Any

from ._tierra import Connection, InterfaceError, Result


class Cursor:
    """One statement at a time of a connection, and its rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result: Result | None = None
        self._written = -1
        self._closed = False

    def _open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")

    def _rows(self) -> Result:
        self._open()
        if self._result is None:
            raise InterfaceError("no statement was executed that has rows")
        return self._result

    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> Cursor:
        """Runs a statement. Parameters are ? or $1."""
        self._open()
        self._result = None
        self._written = -1
        self._result = self.connection.execute(operation, parameters)
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> Cursor:
        """Runs a statement once for each sequence of parameters."""
        self._open()
        self._result = None
        self._written = self.connection.executemany(operation, seq_of_parameters)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None at the end."""
        return self._rows().fetchone()

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, `arraysize` unless `size` says otherwise."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self._rows().fetchall()

    def fetch_arrow_table(self) -> Any:
        """All rows that are left, as a pyarrow.Table."""
        return self._rows().arrow()

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Seven items for each column, or None if there are no rows."""
        return None if self._result is None else self._result.description

    @property
    def rowcount(self) -> int:
        """Rows written or read, or -1 if that is not known yet."""
        return self._written if self._result is None else self._result.rowcount

    @property
    def lastrowid(self) -> None:
        """Tables have no row ids of their own."""
        return None

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Ends the statement. The cursor cannot be used any more."""
        self._result = None
        self._closed = True

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows())

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class _Type:
    """Equal to the names of the types of one kind, as they are in `description`."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other.split("(")[0] in self._names
        return self is other

    def __hash__(self) -> int:
        return hash(self._names)


STRING = _Type("VARCHAR")
BINARY = _Type("Binary", "LargeBinary", "BinaryView")
NUMBER = _Type(
    "BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "BIGINT UNSIGNED", "DECIMAL", "REAL", "DOUBLE"
)
DATETIME = _Type("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
ROWID = _Type()

Date = _datetime.date
Time = _datetime.time
Timestamp = _datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> _datetime.date:
    """The local date so many seconds after 1970 began."""
    return _datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> _datetime.time:
    """The local time so many seconds after 1970 began."""
    return _datetime.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> _datetime.datetime:
    """The local date and time so many seconds after 1970 began."""
    return _datetime.datetime.fromtimestamp(ticks)
