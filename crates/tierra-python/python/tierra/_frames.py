"""Results as pyarrow, pandas, polars and NumPy hold them: methods of `Result`.

They are Python, because these libraries release the interpreter and call back for the next rows. The compiled module could not see
that from within a method of its own, and would take the interpreter for held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._tierra import Result


def _through(result: Result, work: Callable[[], Any]) -> Any:
    """What `work` makes of the rows. Ctrl-C ends an Arrow stream with an error of its reader, and is raised here."""
    try:
        return work()
    except Exception:
        if result._interrupted():
            raise KeyboardInterrupt from None
        raise


def reader(self: Result) -> Any:
    """A pyarrow.RecordBatchReader, which reads the rows as they are asked for."""
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

    return pyarrow.RecordBatchReader.from_stream(self)


def arrow(self: Result) -> Any:
    """All rows as a pyarrow.Table."""
    return _through(self, lambda: reader(self).read_all())


def df(self: Result) -> Any:
    """All rows as a pandas.DataFrame."""
    return arrow(self).to_pandas()


def pl(self: Result) -> Any:
    """All rows as a polars.DataFrame."""
    import polars

    return _through(self, lambda: polars.DataFrame(self))


def numpy(self: Result) -> dict[str, Any]:
    """All rows as a dictionary of NumPy arrays, by the names of the columns."""
    table = arrow(self)
    columns = zip(self.columns, table.columns, strict=True)
    return {name: column.combine_chunks().to_numpy(zero_copy_only=False) for name, column in columns}
