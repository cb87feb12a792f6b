"""The database as a driver of ADBC: what pandas, polars and others use to read and write whole tables.

>>> import tierra.adbc
>>> with tierra.adbc.connect("shop-db") as connection, connection.cursor() as cursor:
...     cursor.execute("SELECT 6 * 7 AS answer")
...     cursor.fetch_arrow_table()

The module needs the packages adbc-driver-manager and pyarrow. The driver is in the library of this package, so that connections of
`tierra.connect` and of ADBC share what is open.
"""

import os as _os
from typing import Any

from . import _tierra

entrypoint = "TierraDriverInit"
"""The function by which a driver manager finds the driver in `library`."""
library: str = str(_tierra.__file__)
"""The driver's library."""


def connect(path: str | _os.PathLike[str], *, autocommit: bool = False, **options: Any) -> Any:
    """A connection of `adbc_driver_manager.dbapi`.

    Options are those of the driver, without `tierra.`: `near_memory="4G"`, `create=False`. Without `autocommit` the first statement that
    reads or changes rows begins a transaction, as PEP 249 has it.
    """
    from adbc_driver_manager import dbapi

    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    named = {f"tierra.{name}": text(value) for name, value in options.items()}
    return dbapi.connect(
        driver=library,
        entrypoint=entrypoint,
        db_kwargs={"path": _os.fspath(path), **named},
        autocommit=autocommit,
    )
