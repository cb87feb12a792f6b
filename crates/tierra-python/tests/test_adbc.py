"""The driver of ADBC in the package's library. Its other tests are in `crates/tierra-adbc/tests`."""

import pathlib
import tempfile
import unittest

import tierra
import tierra.adbc

from support import needs


class AdbcTest(unittest.TestCase):
    @needs("adbc_driver_manager", "pyarrow")
    def test_both_kinds_of_connections_share_a_database(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "db"
            with tierra.connect(path) as own, tierra.adbc.connect(path) as other:
                own.sql("CREATE TABLE t (id BIGINT)")
                own.sql("INSERT INTO t VALUES (1), (2)")
                with other.cursor() as cursor:
                    cursor.execute("SELECT sum(id) FROM t")
                    self.assertEqual(cursor.fetchone(), (3,))
                    # A table is made outside of transactions, and the query has begun one.
                    other.commit()
                    cursor.adbc_ingest("u", own.sql("SELECT id * 10 AS ten FROM t"))
                self.assertEqual(own.sql("SELECT sum(ten) FROM u").fetchone(), (30,))

    @needs("adbc_driver_manager", "pyarrow")
    def test_options(self):
        from adbc_driver_manager import dbapi

        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "db"
            with self.assertRaisesRegex(dbapi.ProgrammingError, "no such database"):
                tierra.adbc.connect(path, create=False)
            tierra.adbc.connect(path, near_memory="64M", autocommit=True).close()
            with tierra.adbc.connect(path, create=False, read_only=True) as connection:
                with connection.cursor() as cursor:
                    with self.assertRaises(dbapi.Error):
                        cursor.execute("CREATE TABLE t (id BIGINT)")
