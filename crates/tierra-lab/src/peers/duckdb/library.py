"""DuckDB's library, called through its C interface, with answers as Arrow arrays; driven line by line: one JSON request in, one JSON
reply out. Its tables are in memory, or in the file that the second argument names.

{"load": TABLE, "path": FILE, "key": COLUMN} reads a Parquet file into a table, with that column as its primary key unless it is
null. {"query": SQL} replies with the time until all arrays of the answer were there, and with its rows as texts. {"queries":
[SQL, ..]} does so for several, with the time of all. {"prepare": SQL} prepares a statement of one INTEGER parameter, {"run":
[VALUE, ..]} executes it with each, {"calls": N} replies with the time of as many calls of a function that does nothing, in the
same loop as N executions.

Arrays are read after the clock was stopped. The module `duckdb` is only the file in which the library lies.
"""
import ctypes
import datetime
import decimal
import gc
import json
import os
import sys
import time

import _duckdb

NUMBERS = {"c": "b", "C": "B", "s": "h", "S": "H", "i": "i", "I": "I", "l": "q", "L": "Q", "f": "f", "g": "d", "tdD": "i", "tsu:": "q"}
# Dates and timestamps are counted from here.
MEANINGS = {
    "tdD": lambda days: str(datetime.date(1970, 1, 1) + datetime.timedelta(days)),
    "tsu:": lambda us: str(datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us)),
}


class Schema(ctypes.Structure):
    """ArrowSchema of Arrow's C data interface."""


class Array(ctypes.Structure):
    """ArrowArray of Arrow's C data interface."""


Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(Schema))), ("dictionary", ctypes.c_void_p),
    ("release", Release), ("private_data", ctypes.c_void_p),
]
Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))), ("dictionary", ctypes.c_void_p), ("release", Release),
    ("private_data", ctypes.c_void_p),
]

library = ctypes.CDLL(_duckdb.__file__)
for name in ["duckdb_query_arrow_error", "duckdb_prepare_error", "duckdb_library_version"]:
    getattr(library, name).restype = ctypes.c_char_p
nothing = library.duckdb_vector_size


def column(schema, array):
    """The texts of one column's values."""
    kind, at, length = schema.format.decode(), array.offset, array.length
    buffers = [array.buffers[number] for number in range(array.n_buffers)]

    def numbers(buffer, letter, count):
        width = ctypes.sizeof({"b": ctypes.c_int8, "h": ctypes.c_int16, "i": ctypes.c_int32, "q": ctypes.c_int64,
                               "f": ctypes.c_float, "d": ctypes.c_double}[letter.lower()])
        return memoryview(ctypes.string_at(buffer + at * width, count * width)).cast(letter) if count else []

    def bits(buffer):
        packed = ctypes.string_at(buffer, (at + length + 7) // 8)
        return [packed[bit // 8] >> bit % 8 & 1 == 1 for bit in range(at, at + length)]

    if length == 0:
        return []
    if kind in NUMBERS:
        values = numbers(buffers[1], NUMBERS[kind], length)
    elif kind == "b":
        values = ["true" if bit else "false" for bit in bits(buffers[1])]
    elif kind in ("u", "U"):
        ends = numbers(buffers[1], "i" if kind == "u" else "q", length + 1)
        # Offsets count from the buffer's beginning, also in a slice.
        values = [ctypes.string_at(buffers[2] + low, high - low).decode() if high > low else "" for low, high in zip(ends, ends[1:])]
    elif kind.startswith("d:"):
        _, scale, width = (kind[2:] + ",128").split(",")[:3]
        width = int(width) // 8
        packed = ctypes.string_at(buffers[1] + at * width, length * width)
        whole = [int.from_bytes(packed[place:place + width], "little", signed=True) for place in range(0, len(packed), width)]
        values = [f"{decimal.Decimal(value).scaleb(-int(scale), exact):f}" for value in whole]
    else:
        raise ValueError(f"a column of Arrow's format {kind}")
    # What lies where a value is NULL means nothing, and is no date.
    meaning = MEANINGS.get(kind, str)
    present = bits(buffers[0]) if buffers[0] else [True] * length
    return [meaning(value) if there else "NULL" for value, there in zip(values, present)]


# Decimals have up to 38 digits; the default context rounds to 28.
exact = decimal.Context(prec=76)


def rows(answers):
    """The rows of some answers as texts; frees them."""
    found = []
    for result, arrays in answers:
        schema = Schema()
        library.duckdb_query_arrow_schema(result, ctypes.byref(ctypes.c_void_p(ctypes.addressof(schema))))
        for array in arrays:
            columns = [column(schema.children[place][0], array.children[place][0]) for place in range(array.n_children)]
            found.extend(list(row) for row in zip(*columns))
            array.release(ctypes.addressof(array))
        schema.release(ctypes.addressof(schema))
        library.duckdb_destroy_arrow(ctypes.byref(result))
    return found


def execute(sql):
    """Runs a statement: its result, and the arrays of the answer."""
    result = ctypes.c_void_p()
    failed = library.duckdb_query_arrow(connection, sql.encode(), ctypes.byref(result))
    return fetch(failed, result)


def fetch(failed, result):
    if failed:
        message = (library.duckdb_query_arrow_error(result) or b"unknown error").decode()
        library.duckdb_destroy_arrow(ctypes.byref(result))
        raise RuntimeError(message)
    arrays = []
    while True:
        array = Array()
        if library.duckdb_query_arrow_array(result, ctypes.byref(ctypes.c_void_p(ctypes.addressof(array)))):
            raise RuntimeError("an Arrow array could not be made")
        if not array.release:
            return result, arrays
        if array.length == 0:
            array.release(ctypes.addressof(array))
            return result, arrays
        arrays.append(array)


def run(value):
    """Executes the prepared statement."""
    library.duckdb_bind_int32(statement, 1, ctypes.c_int32(value))
    result = ctypes.c_void_p()
    failed = library.duckdb_execute_prepared_arrow(statement, ctypes.byref(result))
    return fetch(failed, result)


def call():
    """As many calls as `run` makes for one row, with arguments made likewise, of a function that does nothing."""
    nothing(statement, 1, ctypes.c_int32(1))
    result = ctypes.c_void_p()
    nothing(statement, ctypes.byref(result))
    for _ in range(2):
        array = Array()
        nothing(result, ctypes.byref(ctypes.c_void_p(ctypes.addressof(array))))


def timed(work):
    gc.disable()
    start = time.perf_counter_ns()
    done = work()
    elapsed_ns = time.perf_counter_ns() - start
    gc.enable()
    return elapsed_ns, done


def load(table, path, key):
    source = "read_parquet('" + path.replace("'", "''") + "')"
    if key is None:
        rows([execute(f'CREATE TABLE "{table}" AS FROM {source}')])
        return
    columns = rows([execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {source})")])
    columns = [f'"{name}" {kind}' + (" PRIMARY KEY" if name == key else "") for name, kind in columns]
    rows([execute(f'CREATE TABLE "{table}" ({", ".join(columns)})')])
    rows([execute(f'INSERT INTO "{table}" FROM {source}')])


def prepare(sql):
    if library.duckdb_prepare(connection, sql.encode(), ctypes.byref(statement)):
        raise RuntimeError((library.duckdb_prepare_error(statement) or b"unknown error").decode())


def answered(work):
    elapsed_ns, answers = timed(work)
    return {"time_ns": elapsed_ns, "rows": rows(answers)}


def serve(request):
    if "load" in request:
        return load(request["load"], request["path"], request["key"]) or {}
    if "query" in request:
        return answered(lambda: [execute(request["query"])])
    if "queries" in request:
        return answered(lambda: [execute(query) for query in request["queries"]])
    if "prepare" in request:
        return prepare(request["prepare"]) or {}
    if "run" in request:
        return answered(lambda: [run(value) for value in request["run"]])
    return {"time_ns": timed(lambda: [call() for _ in range(request["calls"])])[0]}


# What the library itself writes to standard output is no reply.
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
database, connection, statement = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
file = sys.argv[2].encode() if len(sys.argv) > 2 else None
if library.duckdb_open(file, ctypes.byref(database)) or library.duckdb_connect(database, ctypes.byref(connection)):
    sys.exit("DuckDB does not open a database")
rows([execute(f"SET threads = {int(sys.argv[1])}")])
version = library.duckdb_library_version().decode().removeprefix("v")
print(json.dumps({"version": version}), file=replies, flush=True)
for line in sys.stdin:
    try:
        reply = serve(json.loads(line))
    except Exception as error:
        reply = {"error": str(error)}
    print(json.dumps(reply), file=replies, flush=True)
