"""DuckDB in memory, driven line by line: one JSON request in, one JSON reply out.

{"load": TABLE, "path": [FILE, ..]} reads Parquet files into a table, {"drop": TABLE} drops it, {"queries": [SQL, ..]} runs
queries and replies with the rows or the error of each, every value with a letter before it: n a number with all its digits,
f a floating-point number, t any other. A query that takes longer than ten seconds is interrupted, which is an error: windows that
DuckDB evaluates anew for each row take hours over some hundred thousand rows.
"""
import datetime
import decimal
import json
import os
import sys
import threading
import time

import duckdb

MOST_SECONDS = 4


def cell(value):
    if value is None:
        return None
    if isinstance(value, float):
        return f"f{value!r}"
    if isinstance(value, decimal.Decimal):
        return f"n{value:f}"
    if isinstance(value, int):
        return f"n{int(value)}"
    if isinstance(value, datetime.datetime):
        return "t" + value.isoformat(" ", "microseconds")
    return f"t{value}"


def interrupt():
    """Ends queries whose time is over."""
    while True:
        time.sleep(1)
        if began is not None and time.monotonic() - began > MOST_SECONDS:
            connection.interrupt()


def answer(query):
    global began
    began = time.monotonic()
    try:
        return {"rows": [[cell(value) for value in row] for row in connection.execute(query).fetchall()]}
    except Exception as error:
        return {"error": str(error)}
    finally:
        began = None


# What the library itself writes to standard output is no reply.
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
connection = duckdb.connect(":memory:")
connection.execute(f"SET threads = {int(sys.argv[1])}")
began = None
threading.Thread(target=interrupt, daemon=True).start()
print(json.dumps({"version": duckdb.__version__}), file=replies, flush=True)
for line in sys.stdin:
    request = json.loads(line)
    try:
        if "load" in request:
            paths = ", ".join("'" + path.replace("'", "''") + "'" for path in request["path"])
            connection.execute(f"CREATE TABLE \"{request['load']}\" AS FROM read_parquet([{paths}])")
            reply = {}
        elif "drop" in request:
            connection.execute(f"DROP TABLE \"{request['drop']}\"")
            reply = {}
        else:
            reply = {"answers": [answer(query) for query in request["queries"]]}
    except Exception as error:
        reply = {"error": str(error)}
    print(json.dumps(reply), file=replies, flush=True)
