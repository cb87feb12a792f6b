"""psycopg 3, asyncpg and SQLAlchemy."""

import asyncio
import datetime
import decimal
import threading
import time
import unittest

from support import WithServer, needs

# Runs for minutes unless it is stopped. Its batches are short, so that it stops soon.
LONG = """SELECT count(*) FROM generate_series(1, 100) a(x), generate_series(1, 10000000000) b(y)
          WHERE x * y % 7 = 3"""

ROW = (
    7,
    2**62,
    decimal.Decimal("12345678901234567890123456.0123456789"),
    0.1,
    True,
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 12, 0, 0, 500000),
    "é, \"x\"\n",
)
SPAN = datetime.timedelta(days=-1, hours=2, microseconds=5)
COLUMNS = "i INTEGER, b BIGINT, d DECIMAL(38, 10), f DOUBLE, t BOOLEAN, day DATE, at TIMESTAMP, s VARCHAR"


@needs("psycopg")
class Psycopg(WithServer):
    def connect(self, **options):
        import psycopg

        connection = psycopg.connect(self.url, **options)
        self.addCleanup(connection.close)
        return connection

    def test_every_type_there_and_back(self):
        with self.connect(autocommit=True) as db:
            db.execute("DROP TABLE IF EXISTS v")
            db.execute(f"CREATE TABLE v ({COLUMNS})")
            marks = ", ".join(["%s"] * len(ROW))
            db.execute(f"INSERT INTO v VALUES ({marks})", ROW)
            db.execute(f"INSERT INTO v VALUES ({marks})", (None,) * len(ROW), binary=True)
            for binary in (False, True):
                with db.cursor(binary=binary) as cursor:
                    cursor.execute("SELECT * FROM v WHERE i IS NOT NULL")
                    self.assertEqual(cursor.fetchall(), [ROW])
                    self.assertEqual(cursor.description[2].precision, 38)
                    cursor.execute("SELECT * FROM v WHERE i IS NULL")
                    self.assertEqual(cursor.fetchall(), [(None,) * len(ROW)])
                    cursor.execute("SELECT count(*) FROM v WHERE i = ANY(%s)", ([7, 8],))
                    self.assertEqual(cursor.fetchone(), (1,))
                    cursor.execute("SELECT at - %s, at - %b FROM v WHERE i = 7", (SPAN, SPAN))
                    self.assertEqual(cursor.fetchone(), (ROW[6] - SPAN,) * 2)
                    cursor.execute("SELECT count(*) FROM v WHERE d = %s AND day = %s AND s = %s", (ROW[2], ROW[5], ROW[7]))
                    self.assertEqual(cursor.fetchone(), (1,))

    def test_transactions(self):
        import psycopg

        with self.connect(autocommit=True) as db:
            db.execute("CREATE TABLE tx (n BIGINT PRIMARY KEY)")
        with self.connect() as db:
            db.execute("INSERT INTO tx VALUES (1)")
            with self.assertRaises(psycopg.errors.UniqueViolation):
                db.execute("INSERT INTO tx VALUES (1)")
            with self.assertRaises(psycopg.errors.InFailedSqlTransaction):
                db.execute("SELECT 1")
            db.rollback()
            with db.transaction():
                db.execute("INSERT INTO tx VALUES (2)")
                with self.assertRaises(ZeroDivisionError), db.transaction():
                    db.execute("INSERT INTO tx VALUES (3)")
                    raise ZeroDivisionError
            self.assertEqual(db.execute("SELECT n FROM tx").fetchall(), [(2,)])

    def test_copies(self):
        with self.connect(autocommit=True) as db:
            db.execute("DROP TABLE IF EXISTS c")
            db.execute(f"CREATE TABLE c ({COLUMNS})")
        for binary in ("", "(FORMAT binary)"):
            # Within a transaction, as psycopg begins one.
            with self.connect() as db, db.cursor() as cursor:
                with cursor.copy(f"COPY c FROM STDIN {binary}") as copy:
                    if binary:
                        copy.set_types(["int4", "int8", "numeric", "float8", "bool", "date", "timestamp", "text"])
                    for _ in range(3):
                        copy.write_row(ROW)
                self.assertEqual(cursor.rowcount, 3)
                with cursor.copy(f"COPY c TO STDOUT {binary}") as copy:
                    copy.set_types(["int4", "int8", "numeric", "float8", "bool", "date", "timestamp", "text"])
                    rows = list(copy.rows())
                self.assertEqual(rows[-1], ROW)
        with self.connect() as db:
            self.assertEqual(db.execute("SELECT count(*) FROM c").fetchone(), (6,))

    def test_rows_are_streamed(self):
        with self.connect() as db, db.cursor("server") as cursor:
            cursor.execute("SELECT value FROM generate_series(1, 20000) WHERE value <= %s", (10_000,))
            self.assertEqual(sum(row[0] for row in cursor), 50_005_000)
        with self.connect(autocommit=True) as db, db.cursor() as cursor:
            before, most = self.resident_bytes(), 0
            for place, _ in enumerate(cursor.stream("SELECT value, 'some text' FROM generate_series(1, 1000000)")):
                if place % 100_000 == 0:
                    most = max(most, self.resident_bytes() - before)
            self.assertEqual(place, 999_999)
            self.assertLess(most, 64 << 20)

    def test_cancelling(self):
        import psycopg

        with self.connect(autocommit=True) as db:
            timer = threading.Timer(0.3, db.cancel)
            timer.start()
            start = time.monotonic()
            with self.assertRaises(psycopg.errors.QueryCanceled):
                db.execute(LONG)
            self.assertLess(time.monotonic() - start, 30)
            timer.join()
            db.execute("SET statement_timeout = 100")
            with self.assertRaises(psycopg.errors.QueryCanceled):
                db.execute(LONG)
            db.execute("SET statement_timeout = 0")
            self.assertEqual(db.execute("SELECT 1").fetchone(), (1,))

    def test_pipelines_and_prepared_statements(self):
        with self.connect(autocommit=True) as db:
            db.prepare_threshold = 0
            for n in range(5):
                self.assertEqual(db.execute("SELECT %s + 1", (n,)).fetchone(), (n + 1,))
            with db.pipeline():
                cursors = [db.execute("SELECT value FROM generate_series(1, 50) WHERE value <= %s", (n,)) for n in range(1, 20)]
            self.assertEqual([len(cursor.fetchall()) for cursor in cursors], list(range(1, 20)))
            with db.cursor() as cursor:
                db.execute("DROP TABLE IF EXISTS m")
                db.execute("CREATE TABLE m (n BIGINT, s VARCHAR)")
                cursor.executemany("INSERT INTO m VALUES (%s, %s)", [(n, str(n)) for n in range(100)])
                self.assertEqual(cursor.rowcount, 100)


@needs("asyncpg")
class Asyncpg(WithServer):
    def test_the_driver(self):
        import asyncpg

        async def use():
            pool = await asyncpg.create_pool(self.url, min_size=1, max_size=2)
            async with pool.acquire() as db:
                await db.execute(f"CREATE TABLE a ({COLUMNS})")
                marks = ", ".join(f"${n + 1}" for n in range(len(ROW)))
                await db.execute(f"INSERT INTO a VALUES ({marks})", *ROW)
                self.assertEqual(tuple(await db.fetchrow("SELECT * FROM a")), ROW)
                self.assertEqual(await db.fetchval("SELECT count(*) FROM a WHERE i = ANY($1)", [7]), 1)
                self.assertEqual(await db.fetchval("SELECT at - $1::INTERVAL FROM a", SPAN), ROW[6] - SPAN)
                self.assertEqual(await db.fetchval("SELECT at + $1 FROM a", SPAN), ROW[6] + SPAN)
                self.assertEqual(await db.fetchval("SELECT at - day < $1 FROM a", SPAN), False)
                async with db.transaction():
                    self.assertEqual(sum([row["value"] async for row in db.cursor("SELECT value FROM generate_series(1, 1000)")]), 500_500)
                with self.assertRaises(asyncpg.UndefinedTableError):
                    await db.fetch("SELECT * FROM nosuch")
                with self.assertRaises((asyncpg.QueryCanceledError, asyncio.TimeoutError)):
                    await db.fetch(LONG, timeout=0.3)
                self.assertEqual(await db.fetchval("SELECT 1"), 1)
                found = await db.fetchrow("SELECT oid, relname, relkind, relhasindex FROM pg_class WHERE relname = $1", "a")
                self.assertEqual((found["relname"], found["relkind"], found["relhasindex"]), ("a", b"r", False))
                await db.set_type_codec("json", encoder=str, decoder=str, schema="pg_catalog")
                done = await db.copy_records_to_table("a", records=[ROW] * 1000)
                self.assertEqual(done, "COPY 1000")
            await pool.close()

        asyncio.run(use())


@needs("sqlalchemy", "psycopg")
class Alchemy(WithServer):
    def test_the_core(self):
        import sqlalchemy as sa

        url = self.url.replace("postgresql://", "postgresql+psycopg://")
        engine = sa.create_engine(url)
        self.addCleanup(engine.dispose)
        with engine.connect() as db:
            db.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("CREATE TABLE s (id BIGINT PRIMARY KEY, name VARCHAR)"))
        inspector = sa.inspect(engine)
        self.assertIn("s", inspector.get_table_names())
        self.assertEqual(inspector.get_pk_constraint("s")["constrained_columns"], ["id"])
        self.assertEqual([(column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns("s")],
                         [("id", "BIGINT", False), ("name", "TEXT", True)])
        self.assertEqual((inspector.get_indexes("s"), inspector.get_foreign_keys("s")), ([], []))
        self.assertFalse(inspector.has_table("nosuch"))
        metadata = sa.MetaData()
        metadata.reflect(engine)
        self.assertEqual([column.name for column in metadata.tables["s"].primary_key], ["id"])
        table = sa.table("s", sa.column("id", sa.BigInteger), sa.column("name", sa.String))
        with engine.begin() as db:
            db.execute(table.insert(), [{"id": n, "name": f"n{n}"} for n in range(10)])
        with engine.connect() as db:
            query = sa.select(sa.func.count()).select_from(table).where(table.c.id.in_([1, 2, 30]))
            self.assertEqual(db.execute(query).scalar(), 2)


if __name__ == "__main__":
    unittest.main()
