"""The driver as Python's driver manager, pandas and polars use it. `run` starts this program."""

import contextlib
import datetime
import decimal
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings

import adbc_driver_manager
import pyarrow
import pyarrow.csv
from adbc_driver_manager import dbapi

LIBRARY = os.environ["TIERRA_ADBC_LIBRARY"]
ENTRYPOINT = "TierraDriverInit"

# Runs for minutes unless it is stopped.
LONG = """SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 1000000) b(y)
          WHERE x * y % 7 = 3"""


def needs(module):
    """Leaves a test out where a module is missing."""
    missing = importlib.util.find_spec(module) is None
    return unittest.skipIf(missing, f"needs {module}")


def resident_bytes():
    """The memory of this process, without mapped files and pools."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


def connect(path, **options):
    named = {key.replace("__", "."): value for key, value in options.pop("db_kwargs", {}).items()}
    return dbapi.connect(
        driver=LIBRARY, entrypoint=ENTRYPOINT, db_kwargs={"path": str(path), **named}, **options
    )


class DriverTest(unittest.TestCase):
    """Each test has a database of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(scratch.cleanup)
        self.path = pathlib.Path(scratch.name) / "db"

    def connect(self, **options):
        connection = connect(self.path, **options)
        self.addCleanup(self.close, connection)
        return connection

    @staticmethod
    def close(connection):
        with contextlib.suppress(dbapi.Error):
            connection.close()

    def cursor(self, **options):
        """A cursor of a connection of its own, whose statements commit by themselves."""
        cursor = self.connect(autocommit=True, **options).cursor()
        self.addCleanup(cursor.close)
        return cursor

    def raises(self, kind, sqlstate=None, word=""):
        return Raises(self, kind, sqlstate, word)


class Raises:
    """An error of this class of PEP 249, with this SQLSTATE and this word in its text."""

    def __init__(self, test, kind, sqlstate, word):
        self.test, self.kind, self.sqlstate, self.word = test, kind, sqlstate, word

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        self.test.assertIsNotNone(error, "there was no error")
        if not isinstance(error, self.kind):
            return False
        self.error = error
        if self.sqlstate:
            self.test.assertEqual(error.sqlstate, self.sqlstate, str(error))
        self.test.assertIn(self.word, str(error))
        return True


class Statements(DriverTest):
    def test_values_of_every_type_go_in_and_come_out(self):
        cursor = self.cursor()
        cursor.execute(
            """CREATE TABLE t (a BOOLEAN, b INTEGER, c BIGINT, d DECIMAL(38, 10), e DOUBLE, f DATE,
                               g TIMESTAMP, h VARCHAR)"""
        )
        row = (
            True,
            -7,
            1 << 62,
            decimal.Decimal("1234567890123456789012345678.0123456789"),
            -0.5,
            datetime.date(1969, 7, 20),
            datetime.datetime(2026, 11, 26, 1, 2, 3, 456789),
            "ünï\N{SNOWMAN}",
        )
        nothing = (None,) * len(row)
        insert = "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        cursor.execute(insert, row)
        cursor.executemany(insert, [nothing, row])
        self.assertEqual(cursor.rowcount, 2)
        cursor.execute("SELECT * FROM t")
        self.assertEqual(cursor.fetchall(), [row, nothing, row])
        self.assertEqual([column[0] for column in cursor.description], list("abcdefgh"))

    def test_parameters(self):
        cursor = self.cursor()
        cursor.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR)")
        cursor.executemany("INSERT INTO t VALUES (?, ?)", [(n, f"n{n}") for n in range(100)])
        cursor.execute("SELECT name FROM t WHERE id = ?", [7])
        self.assertEqual(cursor.fetchall(), [("n7",)])
        cursor.execute("SELECT id FROM t WHERE id = ANY(?) ORDER BY id", [[3, 5, 500]])
        self.assertEqual(cursor.fetchall(), [(3,), (5,)])
        cursor.execute("SELECT $1, $2", [1.5, "x"])
        self.assertEqual(cursor.fetchall(), [(1.5, "x")])
        cursor.execute("SELECT ?", [None])
        self.assertEqual(cursor.fetchall(), [(None,)])
        cursor.executemany("DELETE FROM t WHERE id = ?", [])
        with self.raises(dbapi.ProgrammingError, "26000"):
            cursor.execute("SELECT name FROM t WHERE id = ?", [1, 2])
        with self.raises(dbapi.ProgrammingError, "26000"):
            cursor.execute("SELECT name FROM t WHERE id = ?")
        with self.raises(dbapi.DataError, "22P02"):
            cursor.execute("SELECT name FROM t WHERE id = ?", ["seven"])
        # Arguments of what failed are not those of what comes next.
        with self.raises(dbapi.ProgrammingError, "42P01"):
            cursor.execute("SELECT * FROM nothing WHERE id = ?", [1])
        cursor.execute("SELECT count(*) FROM t")
        self.assertEqual(cursor.fetchone(), (100,))
        # A query runs for each bound row, and its rows follow each other.
        rows = pyarrow.record_batch({"1": pyarrow.array([4, 2, 200, 9], pyarrow.int64())})
        cursor.execute("SELECT name FROM t WHERE id = ?", rows)
        self.assertEqual(cursor.fetchall(), [("n4",), ("n2",), ("n9",)])
        # So does a change, whether or not the rows that it returns are read.
        cursor.execute("DELETE FROM t WHERE id = ? RETURNING name", rows)
        cursor.execute("SELECT count(*) FROM t")
        self.assertEqual(cursor.fetchone(), (97,))

    def test_which_bound_row_was_refused_is_said(self):
        connection = self.connect()
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
            with self.raises(dbapi.IntegrityError, "23505", "bound row 3"):
                cursor.executemany("INSERT INTO t VALUES (?)", [(1,), (2,), (1,)])
            connection.rollback()
            cursor.execute("SELECT count(*) FROM t")
            self.assertEqual(cursor.fetchone(), (0,))

    def test_schemas_are_known_before_a_statement_runs(self):
        cursor = self.cursor()
        cursor.execute("CREATE TABLE t (id BIGINT NOT NULL, name VARCHAR)")
        schema = cursor.adbc_execute_schema("SELECT name, id + 1 AS next FROM t")
        self.assertEqual(schema.names, ["name", "next"])
        self.assertEqual(schema.field("next").type, pyarrow.int64())
        parameters = cursor.adbc_prepare("SELECT * FROM t WHERE id = ? AND name = ?")
        self.assertEqual(parameters.types, [pyarrow.int64(), pyarrow.string_view()])
        self.assertEqual(cursor.adbc_execute_schema("DROP TABLE t").names, [])
        cursor.execute("SELECT count(*) FROM t")

    def test_a_text_of_several_statements(self):
        cursor = self.cursor()
        cursor.executescript("CREATE TABLE t (id BIGINT); INSERT INTO t VALUES (1), (2)")
        cursor.execute("SELECT sum(id) FROM t")
        self.assertEqual(cursor.fetchone(), (3,))
        with self.raises(dbapi.ProgrammingError, "42P01", "statement 2"):
            cursor.executescript("INSERT INTO t VALUES (3); INSERT INTO u VALUES (3)")

    def test_a_statement_runs_again_after_its_tables_were_made_anew(self):
        for autocommit in [True, False]:
            connection = self.connect(autocommit=autocommit)
            other = self.cursor()
            with connection.cursor() as cursor:
                queries = [
                    ("SELECT * FROM t", None),
                    ("SELECT a FROM t WHERE a = ?", [1]),
                    ("SELECT a FROM t WHERE a + 0 = ?", [1]),
                ]
                for query, parameters in queries:
                    for row in [(1,), (1, 2)]:
                        columns = ", ".join(f"{name} BIGINT" for name in "ab"[: len(row)])
                        key = "PRIMARY KEY" if "WHERE a =" in query else ""
                        other.execute("DROP TABLE IF EXISTS t")
                        other.execute(f"CREATE TABLE t ({columns.replace('BIGINT', f'BIGINT {key}', 1)})")
                        other.execute(f"INSERT INTO t VALUES ({', '.join(map(str, row))})")
                        for _ in range(2):
                            cursor.execute(query, parameters)
                            expected = row if "*" in query else row[:1]
                            self.assertEqual(cursor.fetchall(), [expected], query)
                        if not autocommit:
                            connection.commit()
                # The types of the rows were asked for, and nothing ran.
                self.assertEqual(cursor.adbc_execute_schema("SELECT * FROM t").names, ["a", "b"])
                other.execute("DROP TABLE t")
                other.execute("CREATE TABLE t (c BIGINT)")
                self.assertEqual(cursor.adbc_execute_schema("SELECT * FROM t").names, ["c"])
                cursor.execute("SELECT * FROM t")
                self.assertEqual(cursor.fetchall(), [])

    def test_rows_stream(self):
        cursor = self.cursor()
        cursor.execute("SELECT value FROM generate_series(1, 1000)")
        self.assertEqual(cursor.fetch_arrow_table().num_rows, 1000)
        cursor.execute("SELECT value, value * 2 AS twice FROM generate_series(1, 30000000)")
        reader = cursor.fetch_record_batch()
        rows, least, most = 0, resident_bytes(), 0
        for batch in reader:
            rows += batch.num_rows
            most = max(most, resident_bytes())
        self.assertEqual(rows, 30_000_000)
        # All of them would take 480 MB.
        self.assertLess(most - least, 128 << 20)

    def test_a_thousand_statements_take_no_memory(self):
        connection = self.connect(autocommit=True)
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR)")

        def some(count):
            for number in range(count):
                with connection.cursor() as cursor:
                    cursor.execute("SELECT ? AS number, count(*) FROM t", [number])
                    self.assertEqual(cursor.fetchone()[0], number)
                    with contextlib.suppress(dbapi.Error):
                        cursor.execute("SELECT nothing FROM t")
                    cursor.execute("SELECT value FROM generate_series(1, 100000)")
                    cursor.fetchone()

        some(200)
        # What is kept for good grows each time; what threads of the runtime keep does not.
        grown = []
        while not grown or grown[-1] >= 24 << 20:
            self.assertLess(len(grown), 3, grown)
            before = resident_bytes()
            some(1000)
            grown.append(resident_bytes() - before)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM tierra_queries")
            self.assertEqual(cursor.fetchone(), (1,))


class Catalog(DriverTest):
    def setUp(self):
        super().setUp()
        self.connection = self.connect(autocommit=True)
        with self.connection.cursor() as cursor:
            cursor.executescript(
                """CREATE TABLE items (shop INTEGER, id BIGINT, name VARCHAR, price DECIMAL(9, 2),
                                       PRIMARY KEY (id, shop));
                   CREATE TABLE empty (at TIMESTAMP)"""
            )

    def objects(self, **filters):
        return self.connection.adbc_get_objects(**filters).read_all().to_pylist()

    def test_objects_of_every_depth(self):
        self.assertEqual(
            self.objects(depth="catalogs"), [{"catalog_name": "tierra", "catalog_db_schemas": None}]
        )
        (catalog,) = self.objects(depth="db_schemas")
        self.assertEqual(
            catalog["catalog_db_schemas"], [{"db_schema_name": "public", "db_schema_tables": None}]
        )
        (catalog,) = self.objects(depth="tables")
        tables = catalog["catalog_db_schemas"][0]["db_schema_tables"]
        self.assertEqual([table["table_name"] for table in tables], ["empty", "items"])
        self.assertEqual([table["table_columns"] for table in tables], [None, None])
        for depth in ["columns", "all"]:
            (catalog,) = self.objects(depth=depth, table_name_filter="it%")
            (table,) = catalog["catalog_db_schemas"][0]["db_schema_tables"]
            columns = table["table_columns"]
            self.assertEqual(
                [(c["ordinal_position"], c["column_name"], c["xdbc_type_name"]) for c in columns],
                [
                    (1, "shop", "INTEGER"),
                    (2, "id", "BIGINT"),
                    (3, "name", "VARCHAR"),
                    (4, "price", "DECIMAL(9, 2)"),
                ],
            )
            self.assertEqual([c["xdbc_is_nullable"] for c in columns], ["NO", "NO", "YES", "YES"])
            self.assertEqual((columns[3]["xdbc_column_size"], columns[3]["xdbc_decimal_digits"]), (9, 2))
            (key,) = table["table_constraints"]
            self.assertEqual(key["constraint_type"], "PRIMARY KEY")
            self.assertEqual(key["constraint_column_names"], ["id", "shop"])

    def test_filters_of_objects(self):
        def names(**filters):
            found = self.objects(**filters)
            schemas = [schema for catalog in found for schema in catalog["catalog_db_schemas"]]
            return [table["table_name"] for schema in schemas for table in schema["db_schema_tables"]]

        self.assertEqual(names(), ["empty", "items"])
        self.assertEqual(names(catalog_filter="other"), [])
        self.assertEqual(names(db_schema_filter=""), [])
        self.assertEqual(names(db_schema_filter="pub%", table_name_filter="_mpty"), ["empty"])
        self.assertEqual(names(table_types_filter=["view"]), [])
        self.assertEqual(names(table_types_filter=["view", "table"]), ["empty", "items"])
        (catalog,) = self.objects(column_name_filter="i%")
        tables = catalog["catalog_db_schemas"][0]["db_schema_tables"]
        columns = [[column["column_name"] for column in table["table_columns"]] for table in tables]
        self.assertEqual(columns, [[], ["id"]])

    def test_a_pattern_has_no_escapes(self):
        with self.connection.cursor() as cursor:
            cursor.execute('CREATE TABLE "a\\b" (n BIGINT)')
        (catalog,) = self.objects(depth="tables", table_name_filter="a\\b")
        (schema,) = catalog["catalog_db_schemas"]
        self.assertEqual([table["table_name"] for table in schema["db_schema_tables"]], ["a\\b"])

    def test_a_tables_schema_is_that_of_its_rows(self):
        schema = self.connection.adbc_get_table_schema("items")
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT * FROM items")
            self.assertEqual(schema.types, cursor.fetch_arrow_table().schema.types)
        self.assertFalse(schema.field("id").nullable)
        self.assertTrue(schema.field("name").nullable)
        with self.raises(dbapi.ProgrammingError, "42P01", "'nothing'"):
            self.connection.adbc_get_table_schema("nothing")
        with self.raises(dbapi.ProgrammingError, "42P01"):
            self.connection.adbc_get_table_schema("items", db_schema_filter="other")

    def test_options_of_a_database_are_read(self):
        database = self.connect(db_kwargs={"tierra__create": "true"}).adbc_database
        self.assertEqual(database.get_option("path"), str(self.path))
        self.assertEqual(database.get_option("tierra.create"), "true")
        with self.raises(dbapi.Error, "22023", "'uri'"):
            database.get_option("uri")

    def test_types_of_tables_and_information(self):
        self.assertEqual(self.connection.adbc_get_table_types(), ["table"])
        told = self.connection.adbc_get_info()
        self.assertEqual(told["vendor_name"], "Tierra")
        self.assertEqual(told["driver_adbc_version"], 1_001_000)
        self.assertEqual(self.connection.adbc_current_catalog, "tierra")
        self.assertEqual(self.connection.adbc_current_db_schema, "public")


class Ingest(DriverTest):
    rows = pyarrow.table({"id": [1, 2, 3], "name": ["a", None, "c"], "at": [1.5, 2.5, None]})

    def count(self, table):
        with self.connect().cursor() as cursor:
            cursor.execute(f'SELECT count(*) FROM "{table}"')
            return cursor.fetchone()[0]

    def test_tables_are_made_and_appended_to(self):
        cursor = self.cursor()
        self.assertEqual(cursor.adbc_ingest("t", self.rows), 3)
        cursor.execute("SELECT * FROM t")
        self.assertEqual(cursor.fetch_arrow_table().to_pydict(), self.rows.to_pydict())
        with self.raises(dbapi.ProgrammingError, "42P07", '"t"') as refused:
            cursor.adbc_ingest("t", self.rows, mode="create")
        code = adbc_driver_manager.AdbcStatusCode.ALREADY_EXISTS
        self.assertEqual(refused.error.status_code, code)
        cursor.adbc_ingest("t", self.rows, mode="append")
        cursor.adbc_ingest("t", self.rows.to_batches()[0], mode="create_append")
        cursor.adbc_ingest("u", self.rows.to_reader(), mode="create_append")
        self.assertEqual((self.count("t"), self.count("u")), (9, 3))
        with self.raises(dbapi.ProgrammingError, "42P01") as refused:
            cursor.adbc_ingest("v", self.rows, mode="append")
        self.assertEqual(refused.error.status_code, adbc_driver_manager.AdbcStatusCode.NOT_FOUND)
        # The statement can be used for a query again.
        cursor.execute("SELECT max(id) FROM t")
        self.assertEqual(cursor.fetchone(), (3,))

    def test_a_table_is_not_replaced_in_two_steps(self):
        cursor = self.cursor()
        cursor.adbc_ingest("t", self.rows, mode="replace")
        with self.raises(dbapi.NotSupportedError, "0A000", "DROP TABLE"):
            cursor.adbc_ingest("t", self.rows, mode="replace")
        self.assertEqual(self.count("t"), 3)

    def test_columns_are_matched_by_name(self):
        cursor = self.cursor()
        cursor.execute("CREATE TABLE t (at DOUBLE, name VARCHAR, id INTEGER)")
        for own in [cursor, self.connect().cursor()]:
            own.adbc_ingest("t", self.rows.rename_columns(["ID", "name", "at"]), mode="append")
            own.execute("SELECT id, name, at FROM t WHERE id = 1")
            self.assertEqual(own.fetchone(), (1, "a", 1.5))
            with self.raises(dbapi.ProgrammingError, "42703", "'more'"):
                more = self.rows.append_column("more", pyarrow.array([1, 2, 3]))
                own.adbc_ingest("t", more, mode="append")
            with self.raises(dbapi.ProgrammingError, "42703", "'at'"):
                own.adbc_ingest("t", self.rows.drop_columns(["at"]), mode="append")
            own.close()

    def test_a_column_is_never_lost(self):
        cursor = self.cursor()
        cursor.execute('CREATE TABLE one (a BIGINT)')
        cursor.execute('CREATE TABLE two ("a" BIGINT, "A" BIGINT)')

        def rows(names):
            columns = [pyarrow.array([place]) for place in range(len(names))]
            return pyarrow.RecordBatch.from_arrays(columns, names=list(names))

        for own in [cursor, self.connect().cursor()]:
            for table, names in [("one", "aA"), ("one", "Aa"), ("one", "aa"), ("two", "a"), ("two", "aab")]:
                with self.raises(dbapi.ProgrammingError, "42703") as refused:
                    own.adbc_ingest(table, rows(names), mode="append")
                code = adbc_driver_manager.AdbcStatusCode.ALREADY_EXISTS
                self.assertEqual(refused.error.status_code, code)
            own.adbc_ingest("one", rows("A"), mode="append")
            own.adbc_ingest("two", rows("Aa"), mode="append")
            own.execute('SELECT "a", "A" FROM two')
            self.assertEqual(own.fetchone(), (1, 0))
            own.execute("SELECT * FROM one")
            self.assertEqual(set(own.fetchall()), {(0,)})
            own.close()

    def test_values_are_assigned_as_by_insert(self):
        cursor = self.cursor()
        cursor.execute("CREATE TABLE t (n BIGINT, d DECIMAL(5, 2), at TIMESTAMP, s VARCHAR)")
        cursor.execute("CREATE TABLE truths (b BOOLEAN NOT NULL)")
        doubles = [1.5, 2.5, -1.5, 2.9, -0.4, None]
        decimals = [None if value is None else decimal.Decimal(str(value)) for value in doubles]
        nanoseconds = pyarrow.array([1999, -1, -1500, None, None, None], pyarrow.timestamp("ns"))
        rows = [
            pyarrow.table({"n": numbers, "d": [1.239] * 6, "at": nanoseconds, "s": [True] * 6})
            for numbers in [pyarrow.array(doubles), pyarrow.array(decimals, pyarrow.decimal128(9, 3))]
        ]
        # What INSERT makes of them.
        for number in ["1.5", "2.5", "-1.5", "2.9", "-0.4", "NULL"]:
            cursor.execute(f"INSERT INTO t (n) VALUES ({number})")
        cursor.execute("SELECT n FROM t")
        expected = [row[0] for row in cursor.fetchall()]
        self.assertCountEqual(expected, [2, 3, -2, 3, 0, None])
        for own in [cursor, self.connect().cursor()]:
            for table in rows:
                own.execute("DELETE FROM t")
                own.adbc_ingest("t", table, mode="append")
                own.execute("SELECT n, d, at, s FROM t")
                found = own.fetch_arrow_table()
                self.assertCountEqual(found["n"].to_pylist(), expected)
                instants = found["at"].cast(pyarrow.int64()).to_pylist()
                self.assertCountEqual(instants, [1, -1, -2] + [None] * 3)
                self.assertEqual(set(found["d"].to_pylist()), {decimal.Decimal("1.24")})
                self.assertEqual(set(found["s"].to_pylist()), {"true"})
            for table, column, values, kind, state in [
                ("truths", "b", [2], dbapi.ProgrammingError, "42804"),
                ("truths", "b", ["true"], dbapi.ProgrammingError, "42804"),
                ("truths", "b", [None, True], dbapi.IntegrityError, "23502"),
            ]:
                with self.raises(kind, state, f"'{column}'"):
                    own.adbc_ingest(table, pyarrow.table({column: values}), mode="append")
                if own is not cursor:
                    own.connection.rollback()
            own.execute("SELECT count(*) FROM truths")
            self.assertEqual(own.fetchone(), (0,))
            own.close()

    def test_rows_for_two_tables_at_once_are_not_mixed_up(self):
        self.cursor().executescript("CREATE TABLE t1 (n BIGINT); CREATE TABLE t2 (n BIGINT)")
        connection = self.connect()
        schema = pyarrow.schema({"n": pyarrow.int64()})

        def ingest(number):
            def rows():
                for _ in range(20):
                    time.sleep(0.0005)
                    yield pyarrow.record_batch({"n": [number] * 1000})

            with connection.cursor() as cursor:
                reader = pyarrow.RecordBatchReader.from_batches(schema, rows())
                written.append(cursor.adbc_ingest(f"t{number}", reader, mode="append"))

        for _ in range(8):
            written = []
            threads = [threading.Thread(target=ingest, args=[number]) for number in (1, 2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(written, [20_000, 20_000])
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT (SELECT count(*) FROM t1 WHERE n <> 1), (SELECT count(*) FROM t2 WHERE n <> 2)"
                )
                self.assertEqual(cursor.fetchone(), (0, 0))
            connection.rollback()

    def test_all_rows_are_there_or_none(self):
        cursor = self.cursor()
        cursor.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")

        def rows():
            yield pyarrow.record_batch({"id": list(range(200_000))})
            yield pyarrow.record_batch({"id": [5]})

        schema = pyarrow.schema({"id": pyarrow.int64()})
        reader = pyarrow.RecordBatchReader.from_batches(schema, rows())
        with self.raises(dbapi.IntegrityError, "23505"):
            cursor.adbc_ingest("t", reader, mode="append")

        def broken():
            yield pyarrow.record_batch({"id": [1]})
            raise RuntimeError("out of rows")

        for table, mode in [("t", "append"), ("u", "create")]:
            reader = pyarrow.RecordBatchReader.from_batches(schema, broken())
            with self.raises(dbapi.Error, word="out of rows"):
                cursor.adbc_ingest(table, reader, mode=mode)
        self.assertEqual(self.count("t"), 0)
        with self.raises(dbapi.ProgrammingError, "42P01"):
            self.count("u")

    def test_many_rows(self):
        cursor = self.cursor()
        numbers = pyarrow.array(range(1_000_000), pyarrow.int64())
        batch = pyarrow.record_batch({"n": numbers})
        reader = pyarrow.RecordBatchReader.from_batches(batch.schema, [batch] * 8)
        self.assertEqual(cursor.adbc_ingest("t", reader), 8_000_000)
        cursor.execute("SELECT count(*), sum(n) FROM t")
        self.assertEqual(cursor.fetchone(), (8_000_000, 8 * sum(range(1_000_000))))

    def test_rows_are_part_of_a_transaction(self):
        self.cursor().execute("CREATE TABLE t (id BIGINT, name VARCHAR, at DOUBLE)")
        connection = self.connect()
        with connection.cursor() as cursor:
            self.assertEqual(cursor.adbc_ingest("t", self.rows, mode="append"), 3)
            self.assertEqual(cursor.adbc_ingest("t", self.rows, mode="create_append"), 3)
            cursor.execute("SELECT count(*) FROM t")
            self.assertEqual(cursor.fetchone(), (6,))
            self.assertEqual(self.count("t"), 0)
            connection.rollback()
            self.assertEqual(self.count("t"), 0)
            cursor.adbc_ingest("t", self.rows, mode="append")
            # What there is and what there is not is said as outside of a transaction.
            for mode, table, state in [("append", "u", "42P01"), ("create", "t", "42P07")]:
                with self.raises(dbapi.ProgrammingError, state):
                    cursor.adbc_ingest(table, self.rows, mode=mode)
            # A table is made by itself, as by CREATE TABLE.
            with self.raises(dbapi.ProgrammingError, "25001", "commit"):
                cursor.adbc_ingest("u", self.rows, mode="create")
            connection.commit()
            self.assertEqual(self.count("t"), 3)
            cursor.adbc_ingest("u", self.rows, mode="create")
            connection.rollback()
            self.assertEqual(self.count("u"), 3)

    def test_what_cannot_be_ingested_is_said(self):
        cursor = self.cursor()
        for options, kind, state in [
            ({"temporary": True}, dbapi.NotSupportedError, "0A000"),
            ({"catalog_name": "other"}, dbapi.ProgrammingError, "3F000"),
            ({"db_schema_name": "other"}, dbapi.ProgrammingError, "3F000"),
        ]:
            with self.raises(kind, state), self.connect(autocommit=True).cursor() as own:
                own.adbc_ingest("t", self.rows, **options)
        with self.raises(dbapi.Error, word="list"):
            cursor.adbc_ingest("t", pyarrow.table({"list": [[1]]}))
        with self.raises(dbapi.Error, word="tierra_"):
            cursor.adbc_ingest("tierra_queries", self.rows)
        readonly = {"adbc.connection.readonly": "true"}
        with self.raises(dbapi.ProgrammingError, "42501"):
            self.cursor(conn_kwargs=readonly).adbc_ingest("t", self.rows)
        cursor.adbc_ingest("t", self.rows, catalog_name="tierra", db_schema_name="public")
        with self.raises(dbapi.ProgrammingError, "42501"):
            self.cursor(conn_kwargs=readonly).adbc_ingest("t", self.rows, mode="append")
        self.assertEqual(self.count("t"), 3)


class Transactions(DriverTest):
    def setUp(self):
        super().setUp()
        self.cursor().executescript("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT); INSERT INTO t VALUES (1, 10)")

    def value(self, connection):
        with connection.cursor() as cursor:
            cursor.execute("SELECT n FROM t WHERE id = 1")
            return cursor.fetchone()[0]

    def run_in(self, connection, text):
        with connection.cursor() as cursor:
            cursor.execute(text)

    def test_changes_are_seen_once_they_are_committed(self):
        one, other = self.connect(), self.connect(autocommit=True)
        self.run_in(one, "UPDATE t SET n = 11")
        self.assertEqual((self.value(one), self.value(other)), (11, 10))
        one.rollback()
        self.assertEqual(self.value(one), 10)
        one.rollback()
        self.run_in(one, "UPDATE t SET n = 12")
        one.commit()
        one.commit()
        self.assertEqual(self.value(other), 12)
        self.run_in(one, "UPDATE t SET n = 13")
        one.close()
        self.assertEqual(self.value(other), 12)

    def test_of_two_changes_of_a_row_the_second_fails(self):
        one, other = self.connect(), self.connect()
        self.run_in(one, "UPDATE t SET n = 20")
        self.run_in(other, "UPDATE t SET n = 30")
        one.commit()
        with self.raises(dbapi.Error, "40001"):
            other.commit()
        self.assertEqual(self.value(other), 20)

    def test_nothing_runs_after_an_error_until_rollback(self):
        one = self.connect()
        self.run_in(one, "UPDATE t SET n = 20")
        with self.raises(dbapi.DataError, "22012"):
            self.run_in(one, "SELECT 1 / (n - n) FROM t")
        with self.raises(dbapi.Error, "25P02"):
            self.value(one)
        with self.raises(dbapi.Error, "25P02", "rolled back"):
            one.commit()
        self.assertEqual(self.value(one), 10)

    def test_autocommit_is_switched(self):
        one, other = self.connect(), self.connect(autocommit=True)
        self.run_in(one, "UPDATE t SET n = 20")
        one.adbc_connection.set_autocommit(True)
        self.assertEqual(self.value(other), 20)
        self.run_in(one, "UPDATE t SET n = 21")
        self.assertEqual(self.value(other), 21)
        with self.raises(dbapi.ProgrammingError, "55000"):
            one.adbc_connection.commit()
        one.adbc_connection.set_autocommit(False)
        self.run_in(one, "UPDATE t SET n = 22")
        self.assertEqual(self.value(other), 21)
        isolation = "adbc.connection.transaction.isolation_level"
        one.adbc_connection.set_options(**{isolation: "adbc.connection.transaction.isolation.snapshot"})
        with self.raises(dbapi.NotSupportedError, "0A000", "snapshot"):
            one.adbc_connection.set_options(
                **{isolation: "adbc.connection.transaction.isolation.serializable"}
            )

    def test_a_connection_that_only_reads(self):
        reader = self.connect(autocommit=True, conn_kwargs={"adbc.connection.readonly": "true"})
        self.assertEqual(self.value(reader), 10)
        with self.raises(dbapi.ProgrammingError, "42501"):
            self.run_in(reader, "UPDATE t SET n = 20")


class Cancelling(DriverTest):
    def later(self, cancel):
        timer = threading.Timer(0.3, cancel)
        timer.start()
        self.addCleanup(timer.join)
        return time.monotonic()

    def test_a_query_ends(self):
        cursor = self.cursor()
        for _ in range(3):
            began = self.later(cursor.adbc_cancel)
            with self.raises(dbapi.OperationalError, "57014"):
                cursor.execute(LONG)
            self.assertLess(time.monotonic() - began, 30)
        cursor.execute("SELECT 1")
        self.assertEqual(cursor.fetchone(), (1,))
        # Nothing runs.
        cursor.adbc_cancel()

    def test_only_the_statement_itself_ends(self):
        connection = self.connect(autocommit=True)
        with connection.cursor() as reading, connection.cursor() as other:
            reading.execute("SELECT value FROM generate_series(1, 5000000)")
            rows = reading.fetch_record_batch()
            first = rows.read_next_batch().num_rows
            self.later(other.adbc_cancel)
            with self.raises(dbapi.OperationalError, "57014"):
                other.execute(LONG)
            self.assertEqual(first + rows.read_all().num_rows, 5_000_000)

    def test_rows_end(self):
        cursor = self.cursor()
        cursor.execute("SELECT value FROM generate_series(1, 10000000000)")
        rows = cursor.fetch_record_batch()
        rows.read_next_batch()
        self.later(cursor.adbc_cancel)
        with self.assertRaisesRegex(Exception, "cancelled .*57014"):
            while True:
                rows.read_next_batch()

    def test_a_connections_statements_end(self):
        connection = self.connect(autocommit=True)
        with connection.cursor() as cursor:
            self.later(connection.adbc_cancel)
            with self.raises(dbapi.OperationalError, "57014"):
                cursor.execute(LONG)

    def test_a_load_ends_and_leaves_nothing(self):
        cursor = self.cursor()
        batch = pyarrow.record_batch({"n": list(range(10_000))})

        def endless():
            while True:
                yield batch

        for cancel in [cursor.adbc_cancel, cursor.connection.adbc_cancel]:
            reader = pyarrow.RecordBatchReader.from_batches(batch.schema, endless())
            self.later(cancel)
            with self.raises(dbapi.OperationalError, "57014"):
                cursor.adbc_ingest("t", reader)
            with self.raises(dbapi.ProgrammingError, "42P01"):
                cursor.execute("SELECT * FROM t")


class Frames(DriverTest):
    @needs("pandas")
    def test_pandas_writes_and_reads(self):
        import pandas

        connection = self.connect()
        frame = pandas.DataFrame({"id": [1, 2, 3], "name": ["a", "b", None], "x": [0.5, 1.5, None]})
        self.assertEqual(frame.to_sql("frame", connection, index=False), 3)
        read = pandas.read_sql("SELECT * FROM frame ORDER BY id", connection, dtype_backend="pyarrow")
        self.assertEqual(read["id"].tolist(), [1, 2, 3])
        frame.to_sql("frame", connection, index=False, if_exists="append")
        with self.assertRaises(ValueError):
            frame.to_sql("frame", connection, index=False)
        self.assertEqual(len(pandas.read_sql("SELECT * FROM frame", connection)), 6)
        connection.rollback()
        frame.head(1).to_sql("frame", connection, index=False, if_exists="replace")
        read = pandas.read_sql("SELECT count(*) AS n FROM frame WHERE id < 2", connection)
        self.assertEqual(read["n"].tolist(), [1])
        connection.rollback()
        self.assertEqual(len(pandas.read_sql("frame", connection)), 1)

    @needs("polars")
    def test_polars_writes_and_reads(self):
        import polars

        connection = self.connect()
        frame = polars.DataFrame(
            {
                "id": [1, 2, 3],
                "name": ["a", "b", None],
                "kind": polars.Series(["x", "y", "x"], dtype=polars.Categorical),
                "day": [datetime.date(2026, 11, 26)] * 3,
            }
        )
        written = frame.write_database("frame", connection, engine="adbc")
        self.assertEqual(written, 3)
        read = polars.read_database("SELECT * FROM frame ORDER BY id", connection)
        self.assertEqual(read.to_dict(as_series=False), frame.to_dict(as_series=False))
        connection.commit()
        frame.write_database("frame", connection, engine="adbc", if_table_exists="append")
        connection.commit()
        batches = polars.read_database(
            "SELECT id FROM frame", connection, iter_batches=True, batch_size=2
        )
        self.assertEqual(sum(len(batch) for batch in batches), 6)
        read = polars.read_database(
            "SELECT name FROM frame WHERE id = ?", connection, execute_options={"parameters": [2]}
        )
        self.assertEqual(read["name"].to_list(), ["b", "b"])


class Errors(DriverTest):
    def test_errors_have_a_class_and_sqlstate(self):
        cursor = self.cursor()
        cursor.executescript("CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER NOT NULL); INSERT INTO t VALUES (1, 1)")
        for text, kind, state in [
            ("SELEKT 1", dbapi.ProgrammingError, "42601"),
            ("", dbapi.ProgrammingError, "42601"),
            ("SELECT * FROM nothing", dbapi.ProgrammingError, "42P01"),
            ("SELECT nothing FROM t", dbapi.ProgrammingError, "42703"),
            ("SELECT nothing(id) FROM t", dbapi.ProgrammingError, "42883"),
            ("CREATE TABLE t (id BIGINT)", dbapi.ProgrammingError, "42P07"),
            ("SELECT 1 / (id - id) FROM t", dbapi.DataError, "22012"),
            ("SELECT CAST('x' AS INTEGER)", dbapi.DataError, "22P02"),
            ("INSERT INTO t VALUES (1, 2)", dbapi.IntegrityError, "23505"),
            ("INSERT INTO t VALUES (2, NULL)", dbapi.IntegrityError, "23502"),
            ("SET tierra.nothing = 1", dbapi.ProgrammingError, "22023"),
            ("CREATE VIEW v AS SELECT 1", dbapi.NotSupportedError, "0A000"),
        ]:
            with self.subTest(text), self.raises(kind, state):
                cursor.execute(text)
        cursor.execute("SELECT count(*) FROM t")
        self.assertEqual(cursor.fetchone(), (1,))

    def test_an_error_late_in_a_stream_has_its_code_in_the_text(self):
        cursor = self.cursor()
        cursor.execute("SELECT 1 / (3000000 - value) FROM generate_series(1, 4000000)")
        with self.assertRaisesRegex(Exception, "22012"):
            cursor.fetch_arrow_table()
        cursor.execute("SELECT 1")

    def test_what_there_is_not_is_said(self):
        cursor = self.cursor()
        with self.raises(dbapi.NotSupportedError, "0A000", "partitions"):
            cursor.adbc_execute_partitions("SELECT 1")
        with self.raises(dbapi.NotSupportedError, "0A000", "by name"):
            cursor.execute("SELECT ?", {"a": 1})
        with self.raises(dbapi.NotSupportedError, "0A000", "Substrait"):
            cursor.execute(b"plan")
        with self.raises(dbapi.NotSupportedError, "0A000", "partitions"):
            self.connect().adbc_connection.read_partition(b"x")
        with self.raises(dbapi.NotSupportedError, "0A000", "'tierra.nothing'"):
            self.connect(db_kwargs={"tierra__nothing": "1"})
        with self.raises(dbapi.NotSupportedError, "0A000", "'nothing'"):
            self.connect(conn_kwargs={"nothing": "1"})
        with self.raises(dbapi.ProgrammingError, "22023", "is not a size"):
            self.connect(db_kwargs={"tierra__near_memory": "much"})

    def test_damaged_arrow_data_is_refused(self):
        def texts(ends, letters):
            ends = pyarrow.py_buffer(b"".join(end.to_bytes(4, "little") for end in ends))
            return pyarrow.StringArray.from_buffers(
                len(ends) // 4 - 1, ends, pyarrow.py_buffer(letters)
            )

        # Offsets beyond the letters, and letters that are none.
        wrong = texts([0, 1 << 30, 3], b"abc")
        bad_text = texts([0, 2], b"\xff\xfe")
        cursor = self.cursor()
        cursor.execute("CREATE TABLE t (name VARCHAR)")
        for array in [wrong, bad_text]:
            batch = pyarrow.RecordBatch.from_arrays([array], names=["name"])
            with self.raises(dbapi.Error):
                cursor.adbc_ingest("t", batch, mode="append")
            with self.raises(dbapi.Error):
                cursor.execute("SELECT ?", batch)
        # The name of a column that is not UTF-8.
        table = pyarrow.csv.read_csv(io.BytesIO("größe,b\n1,2\n".encode("latin-1")))
        with self.raises(dbapi.Error, "22000") as refused:
            cursor.adbc_ingest("u", table.to_reader())
        self.assertEqual(refused.error.status_code, adbc_driver_manager.AdbcStatusCode.INVALID_DATA)
        # A row that is NULL as a whole, and rows that are no struct.
        for rows in [pyarrow.array([{"name": "a"}, None]), pyarrow.array([1])]:
            with self.raises(dbapi.Error):
                cursor.execute("INSERT INTO t VALUES (?)", rows)
            with self.raises(dbapi.Error):
                cursor.adbc_ingest("t", rows, mode="append")
        cursor.execute("SELECT count(*) FROM t")
        self.assertEqual(cursor.fetchone(), (0,))


class Sharing(DriverTest):
    def test_connections_of_a_process_share_what_is_open(self):
        one, other = self.connect(autocommit=True), self.connect(autocommit=True)
        again = one.adbc_clone()
        self.addCleanup(again.close)
        again.adbc_connection.set_autocommit(True)
        with one.cursor() as cursor:
            cursor.execute("CREATE TABLE t (id BIGINT)")

        def insert(connection):
            with connection.cursor() as cursor:
                for number in range(50):
                    cursor.execute("INSERT INTO t VALUES (?)", [number])

        threads = [threading.Thread(target=insert, args=[connection]) for connection in (one, other, again)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with other.cursor() as cursor:
            cursor.execute("SELECT count(*), sum(id) FROM t")
            self.assertEqual(cursor.fetchone(), (150, 3 * sum(range(50))))
            cursor.execute("SELECT count(*) FROM tierra_sessions WHERE application = 'ADBC'")
            self.assertEqual(cursor.fetchone(), (3,))
        with self.raises(dbapi.ProgrammingError, "22023", "near_memory"):
            self.connect(db_kwargs={"tierra__near_memory": "1M"})

    def test_a_database_is_closed_with_its_last_connection(self):
        for number in range(20):
            connection = connect(self.path, autocommit=True)
            with connection.cursor() as cursor:
                cursor.execute("CREATE TABLE IF NOT EXISTS t (id BIGINT)")
                cursor.execute("INSERT INTO t VALUES (?)", [number])
                cursor.execute("SELECT count(*) FROM t")
                self.assertEqual(cursor.fetchone(), (number + 1,))
            connection.close()

    def test_a_wrong_path(self):
        with self.raises(dbapi.ProgrammingError, "3D000", "no such database"):
            self.connect(db_kwargs={"tierra__create": "false"})
        file = self.path.parent / "file"
        file.write_text("no database")
        with self.raises(dbapi.Error, word=str(file)):
            connect(file)
        with self.raises(dbapi.ProgrammingError, "3D000", "not a Tierra database"):
            connect(self.path.parent)
        with self.raises(dbapi.ProgrammingError, "22023", "path"):
            connect("")

    def test_another_process_is_refused(self):
        connection = connect(self.path, autocommit=True)
        program = f"""
            from adbc_driver_manager import dbapi
            try:
                dbapi.connect(driver={LIBRARY!r}, entrypoint={ENTRYPOINT!r}, db_kwargs={{"path": {str(self.path)!r}}})
            except dbapi.OperationalError as error:
                print(error.sqlstate, error)
            else:
                print("opened")
        """

        def other():
            command = [sys.executable, "-c", textwrap.dedent(program)]
            return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout

        said = other()
        self.assertTrue(said.startswith("55006"), said)
        self.assertIn(str(os.getpid()), said)
        connection.close()
        self.assertTrue(other().startswith("opened"))

    def test_a_fork_is_refused_and_leaves_the_database_alone(self):
        connection = connect(self.path, autocommit=True)
        cursor = connection.cursor()
        cursor.executescript("CREATE TABLE t (id BIGINT); INSERT INTO t VALUES (1)")
        cursor.execute("SELECT value FROM generate_series(1, 10000000)")
        rows = cursor.fetch_record_batch()
        rows.read_next_batch()
        with warnings.catch_warnings():
            # Newer versions of Python warn of forks of processes that have threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            status = 1
            try:
                with contextlib.suppress(Exception):
                    rows.read_next_batch()
                    os._exit(2)
                try:
                    connect(self.path)
                except dbapi.ProgrammingError as error:
                    status = 0 if "fork" in str(error) else 3
                cursor.close()
                connection.close()
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertGreater(rows.read_all().num_rows, 1_000_000)
        cursor.execute("INSERT INTO t VALUES (2)")
        cursor.execute("SELECT count(*) FROM t")
        self.assertEqual(cursor.fetchone(), (2,))
        cursor.close()
        connection.close()


if __name__ == "__main__":
    unittest.main()
