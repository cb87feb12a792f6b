"""Arrow in and out, without a copy: streams, frames, loads, NumPy, and producers that lie."""

import datetime
import decimal
import os
import random
import tempfile
import unittest

import tierra
from support import WithDatabase, needs, resident_bytes

TYPES = {
    "b": "BOOLEAN",
    "i": "INTEGER",
    "l": "BIGINT",
    "d": "DECIMAL(38, 10)",
    "f": "DOUBLE",
    "day": "DATE",
    "at": "TIMESTAMP",
    "s": "VARCHAR",
}


def random_rows(seed, count):
    """Rows of every type, NULL in any place."""
    pick = random.Random(seed)
    digits = lambda: decimal.Decimal(pick.randrange(-(10**38) + 1, 10**38)).scaleb(-10, decimal.Context(prec=50))
    makers = [
        lambda: pick.random() < 0.5,
        lambda: pick.randrange(-(2**31), 2**31),
        lambda: pick.randrange(-(2**63), 2**63),
        digits,
        lambda: pick.choice([0.0, -1.5, 1e300, float("inf"), pick.random()]),
        lambda: datetime.date(1, 1, 1) + datetime.timedelta(days=pick.randrange(3_600_000)),
        lambda: datetime.datetime(1, 1, 1) + datetime.timedelta(microseconds=pick.randrange(3 * 10**17)),
        lambda: "".join(pick.choice("aä\U0001f30d\n'\"") for _ in range(pick.randrange(30))),
    ]
    return [tuple(None if pick.random() < 0.2 else make() for make in makers) for _ in range(count)]


class Arrow(WithDatabase):
    def table(self, name):
        columns = ", ".join(f"{column} {ty}" for column, ty in TYPES.items())
        self.db.sql(f"CREATE TABLE {name} (n INTEGER, {columns})")

    @needs("pyarrow")
    def test_every_type_goes_out_and_comes_back(self):
        import pyarrow

        seed = random.randrange(1 << 32)
        rows = random_rows(seed, 300)
        self.table("t")
        insert = f"INSERT INTO t VALUES ({', '.join(['?'] * 9)})"
        self.assertEqual(self.db.executemany(insert, [(n, *row) for n, row in enumerate(rows[:40])]), 40)
        names = ["n", *TYPES]
        columns = [list(range(40, 300)), *map(list, zip(*rows[40:]))]
        ours = self.db.sql("SELECT * FROM t WHERE false").arrow().schema
        self.db.load("t", pyarrow.table(dict(zip(names, columns)), schema=ours))
        found = self.db.sql("SELECT * FROM t ORDER BY n").fetchall()
        self.assertEqual(found, [(n, *row) for n, row in enumerate(rows)], f"seed {seed}")
        # Through Arrow into another table.
        self.table("u")
        self.db.load("u", self.db.sql("SELECT * FROM t"))
        self.assertEqual(self.db.sql("SELECT * FROM u ORDER BY n").fetchall(), found, f"seed {seed}")
        table = self.db.sql("SELECT * FROM u ORDER BY n").arrow()
        listed = [tuple(row.values()) for row in table.to_pylist()]
        self.assertEqual(listed, found, f"seed {seed}")

    @needs("polars", "pyarrow")
    def test_polars(self):
        rows = random_rows(7, 200)
        self.table("t")
        self.db.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                            [(n, *row) for n, row in enumerate(rows)])
        found = self.db.sql("SELECT * FROM t ORDER BY n").fetchall()
        frame = self.db.sql("SELECT * FROM t ORDER BY n").pl()
        self.assertEqual(frame.rows(), found)
        self.table("u")
        self.db.load("u", frame)
        self.assertEqual(self.db.sql("SELECT * FROM u ORDER BY n").fetchall(), found)
        self.db.register("frame", frame)
        self.assertEqual(self.db.sql("SELECT count(*) FROM frame JOIN t USING (n, l)").fetchone()[0],
                         sum(row[2] is not None for row in rows))

    @needs("pandas", "pyarrow")
    def test_pandas(self):
        import pandas

        frame = pandas.DataFrame({"n": [1, 2, 3], "s": ["x", None, "z"], "f": [0.5, 1.5, float("nan")]})
        self.db.register("frame", frame)
        self.assertEqual(self.db.sql("SELECT n, s FROM frame WHERE n <> 2 ORDER BY n").fetchall(), [(1, "x"), (3, "z")])
        self.assertEqual(self.db.load("t", frame), 3)
        back = self.db.sql("SELECT * FROM t ORDER BY n").df()
        self.assertEqual(list(back["s"])[:1] + list(back["n"]), ["x", 1, 2, 3])
        self.db.unregister("frame")
        with self.assertRaises(tierra.ProgrammingError):
            self.db.sql("SELECT * FROM frame")

    @needs("numpy", "pyarrow")
    def test_numpy(self):
        import numpy

        self.db.sql("CREATE TABLE t AS SELECT v, v * 0.5 AS h FROM generate_series(1, 100000) s(v)")
        arrays = self.db.sql("SELECT v, CAST(h AS DOUBLE) AS h FROM t ORDER BY v").numpy()
        self.assertEqual(arrays["v"].dtype, numpy.int64)
        self.assertEqual(float(arrays["h"].sum()), 100_000 * 100_001 / 4)
        count = self.db.prepare("SELECT count(*) FROM t WHERE v = ANY(?)")
        self.assertEqual(count(numpy.arange(50_000, 150_000)).fetchone(), (50_001,))
        self.assertEqual(self.db.sql("SELECT count(*) FROM t WHERE v = ?", [numpy.int64(7)]).fetchone(), (1,))

    @needs("numpy", "pyarrow")
    def test_committed_rows_are_not_the_arrays_that_they_came_from(self):
        import numpy
        import pyarrow

        self.db.sql("CREATE TABLE t (v BIGINT)")
        array = numpy.arange(1000)
        table = pyarrow.table({"v": array})
        self.db.load("t", table)
        self.db.register("given", table)
        self.db.sql("INSERT INTO t SELECT v FROM given")
        self.db.sql("BEGIN")
        self.db.sql("INSERT INTO t SELECT v FROM given")
        self.db.sql("COMMIT")
        array[:] = -5
        self.assertEqual(self.db.sql("SELECT count(*), min(v), sum(v) FROM t").fetchone(), (3000, 0, 3 * 499500))

    @needs("pyarrow")
    def test_streams_are_read_as_they_are_asked_for(self):
        reader = self.db.sql("SELECT * FROM generate_series(1, 1000000000000)").reader()
        first = reader.read_next_batch()
        self.assertEqual(first.column(0)[0].as_py(), 1)
        self.db.interrupt()
        with self.assertRaisesRegex(Exception, "cancelled"):
            for _ in range(100):
                reader.read_next_batch()
        self.assertEqual(self.db.sql("SELECT 1").fetchone(), (1,))

    @needs("pyarrow")
    def test_a_long_stream_takes_no_memory(self):
        rows = 50_000_000
        self.db.sql(f"CREATE TABLE t AS SELECT CAST(v AS INTEGER) AS v FROM generate_series(1, {rows}) s(v)")
        self.db.sql("SELECT sum(v) FROM t").fetchall()
        reader = self.db.sql("SELECT v FROM t").reader()
        before, read, most = resident_bytes(), 0, 0
        for number, batch in enumerate(reader):
            read += batch.num_rows
            if number % 100 == 0:
                most = max(most, resident_bytes() - before)
        self.assertEqual(read, rows)
        # The values alone take twice as much.
        self.assertLess(most, 100 << 20)

    @needs("pyarrow")
    def test_a_registered_table_is_not_copied(self):
        import pyarrow

        values = pyarrow.array(range(1 << 20), pyarrow.int64())
        table = pyarrow.table({"v": pyarrow.chunked_array([values] * 128)})
        before = resident_bytes()
        self.db.register("big", table)
        self.assertEqual(self.db.sql("SELECT count(*), max(v) FROM big").fetchone(), (1 << 27, (1 << 20) - 1))
        self.assertLess(resident_bytes() - before, 64 << 20)

    @needs("pyarrow")
    def test_arrays_that_lie_are_refused(self):
        import pyarrow

        bad = pyarrow.StringArray.from_buffers(2, pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pyarrow.py_buffer(b"\xff\xfe"))
        table = pyarrow.table({"s": bad})
        with self.assertRaises(tierra.DataError):
            self.db.register("bad", table)
        with self.assertRaises(tierra.Error):
            self.db.load("bad", table)
        self.assertEqual(self.db.tables(), [])
        for wrong in (object(), 5, [1, 2]):
            with self.assertRaises((tierra.ProgrammingError, TypeError)):
                self.db.register("wrong", wrong)

    @needs("pyarrow")
    def test_a_producer_that_fails_leaves_nothing(self):
        import pyarrow

        schema = pyarrow.schema([("n", pyarrow.int64())])

        def batches():
            yield pyarrow.record_batch([pyarrow.array([1])], schema)
            raise ValueError("out of rows")

        reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
        with self.assertRaisesRegex(tierra.Error, "out of rows"):
            self.db.load("t", reader)
        self.assertEqual(self.db.tables(), [])

    def test_files(self):
        with tempfile.TemporaryDirectory() as scratch:
            paths = [os.path.join(scratch, f"{n}.csv") for n in range(2)]
            for n, path in enumerate(paths):
                with open(path, "w") as file:
                    file.write("a,b\n" + "".join(f"{row},x{n}\n" for row in range(1000)))
            told = []
            self.assertEqual(self.db.load("t", *paths, progress=lambda *now: told.append(now)), 2000)
            self.assertEqual(told[-1][0], 2000)
            with open(paths[1], "a") as file:
                file.write("y,z\n")
            with self.assertRaisesRegex(tierra.DataError, "1.csv:1002"):
                self.db.load("t", *paths)
            self.assertEqual(self.db.sql("SELECT count(*) FROM t").fetchone(), (2000,))
            with self.assertRaises(tierra.OperationalError):
                self.db.load("t", os.path.join(scratch, "nosuch.csv"))
            with self.assertRaises(tierra.ProgrammingError):
                self.db.load("t")
            with self.assertRaises(TypeError):
                self.db.load("t", 5)

    def test_a_progress_that_raises_undoes_the_load(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "big.csv")
            with open(path, "w") as file:
                file.write("a\n" + "1234567\n" * 4_000_000)

            def stop(*_):
                raise KeyError("enough")

            with self.assertRaisesRegex(KeyError, "enough"):
                self.db.load("t", path, progress=stop)
            self.assertIn(self.db.tables(), ([], ["t"]))
            if self.db.tables():
                # It had ended before it was told of.
                self.assertEqual(self.db.sql("SELECT count(*) FROM t").fetchone(), (4_000_000,))


if __name__ == "__main__":
    unittest.main()
