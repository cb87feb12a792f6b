"""DuckDB in memory, driven line by line: one JSON request in, one JSON reply out.

{"load": TABLE, "path": FILE} reads a Parquet file into a table, {"query": SQL} runs a query and
replies with the time until all rows had arrived here and with the rows as texts.
"""
import json
import sys
import time

import duckdb


def text(value):
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else str(value)


connection = duckdb.connect(":memory:")
connection.execute(f"SET threads = {int(sys.argv[1])}")
print(json.dumps({"version": duckdb.__version__}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    try:
        if "load" in request:
            path = request["path"].replace("'", "''")
            connection.execute(f"CREATE TABLE \"{request['load']}\" AS FROM read_parquet('{path}')")
            reply = {}
        else:
            start = time.perf_counter_ns()
            rows = connection.execute(request["query"]).fetchall()
            elapsed_ns = time.perf_counter_ns() - start
            reply = {"time_ns": elapsed_ns, "rows": [[text(value) for value in row] for row in rows]}
    except Exception as error:
        reply = {"error": str(error)}
    print(json.dumps(reply), flush=True)
