"""PEP 249, as the public conformance list asks for it."""

import datetime
import decimal
import tempfile
import unittest

import tierra
from support import WithDatabase


class Module(unittest.TestCase):
    def test_globals(self):
        self.assertEqual(tierra.apilevel, "2.0")
        self.assertEqual(tierra.threadsafety, 2)
        self.assertEqual(tierra.paramstyle, "qmark")

    def test_exceptions(self):
        self.assertTrue(issubclass(tierra.Warning, Exception))
        self.assertTrue(issubclass(tierra.Error, Exception))
        for error in (tierra.InterfaceError, tierra.DatabaseError):
            self.assertTrue(issubclass(error, tierra.Error))
        for error in (
            tierra.DataError,
            tierra.OperationalError,
            tierra.IntegrityError,
            tierra.InternalError,
            tierra.ProgrammingError,
            tierra.NotSupportedError,
        ):
            self.assertTrue(issubclass(error, tierra.DatabaseError))

    def test_constructors(self):
        self.assertEqual(tierra.Date(2026, 1, 2), datetime.date(2026, 1, 2))
        self.assertEqual(tierra.Time(1, 2, 3), datetime.time(1, 2, 3))
        self.assertEqual(tierra.Timestamp(2026, 1, 2, 3, 4, 5), datetime.datetime(2026, 1, 2, 3, 4, 5))
        self.assertEqual(tierra.Binary(b"x"), b"x")
        self.assertEqual(tierra.DateFromTicks(0).year in (1969, 1970), True)
        self.assertIsInstance(tierra.TimeFromTicks(0), datetime.time)
        self.assertIsInstance(tierra.TimestampFromTicks(0), datetime.datetime)


class Cursors(WithDatabase):
    def setUp(self):
        super().setUp()
        self.cursor = self.db.cursor()
        self.cursor.execute("CREATE TABLE booze (name VARCHAR, price DECIMAL(9, 2), since DATE)")

    def fill(self):
        rows = [("Cooper's", "1.5", datetime.date(1862, 1, 1)), ("Victoria Bitter", None, None)]
        self.cursor.executemany("INSERT INTO booze VALUES (?, ?, ?)",
                                [(n, p and decimal.Decimal(p), d) for n, p, d in rows])
        self.assertEqual(self.cursor.rowcount, 2)

    def test_description(self):
        self.assertIsNone(self.cursor.description)
        self.cursor.execute("SELECT * FROM booze")
        names = [column[0] for column in self.cursor.description]
        self.assertEqual(names, ["name", "price", "since"])
        for column in self.cursor.description:
            self.assertEqual(len(column), 7)
        kinds = [column[1] for column in self.cursor.description]
        self.assertTrue(kinds[0] == tierra.STRING)
        self.assertTrue(kinds[1] == tierra.NUMBER)
        self.assertTrue(kinds[2] == tierra.DATETIME)
        self.assertFalse(kinds[0] == tierra.NUMBER)
        self.assertEqual(self.cursor.description[1][4:6], (9, 2))
        self.cursor.execute("DROP TABLE booze")
        self.assertIsNone(self.cursor.description)

    def test_rowcount(self):
        self.assertEqual(self.cursor.rowcount, -1)
        self.cursor.execute("INSERT INTO booze (name) VALUES ('x'), ('y')")
        self.assertEqual(self.cursor.rowcount, 2)
        self.cursor.execute("SELECT name FROM booze")
        self.assertEqual(self.cursor.rowcount, -1)
        self.cursor.fetchall()
        self.assertEqual(self.cursor.rowcount, 2)

    def test_fetching(self):
        with self.assertRaises(tierra.Error):
            self.cursor.fetchone()
        self.fill()
        with self.assertRaises(tierra.Error):
            self.db.cursor().fetchall()
        self.cursor.execute("SELECT name FROM booze ORDER BY name")
        self.assertEqual(self.cursor.fetchone(), ("Cooper's",))
        self.assertEqual(self.cursor.fetchmany(5), [("Victoria Bitter",)])
        self.assertIsNone(self.cursor.fetchone())
        self.assertEqual(self.cursor.fetchmany(), [])
        self.assertEqual(self.cursor.fetchall(), [])
        self.cursor.arraysize = 2
        self.cursor.execute("SELECT * FROM generate_series(1, 5)")
        self.assertEqual(len(self.cursor.fetchmany()), 2)
        self.assertEqual([row[0] for row in self.cursor], [3, 4, 5])

    def test_values_come_back(self):
        self.fill()
        self.cursor.execute("SELECT * FROM booze WHERE name = ?", ("Cooper's",))
        self.assertEqual(
            self.cursor.fetchall(),
            [("Cooper's", decimal.Decimal("1.50"), datetime.date(1862, 1, 1))],
        )
        self.cursor.execute("SELECT count(*) FROM booze WHERE price IS NULL AND name <> $1", ["x"])
        self.assertEqual(self.cursor.fetchone(), (1,))

    def test_sizes_are_heard_and_ignored(self):
        self.cursor.setinputsizes([25])
        self.cursor.setoutputsize(1000)
        self.cursor.setoutputsize(2000, 0)

    def test_closing(self):
        self.cursor.close()
        with self.assertRaises(tierra.Error):
            self.cursor.execute("SELECT 1")
        with self.assertRaises(tierra.Error):
            self.cursor.fetchall()
        other = self.db.cursor()
        self.db.close()
        with self.assertRaises(tierra.Error):
            other.execute("SELECT 1")
        with self.assertRaises(tierra.Error):
            self.db.commit()

    def count(self):
        return self.db.sql("SELECT count(*) FROM booze").fetchone()[0]

    def test_every_statement_commits_unless_told_otherwise(self):
        self.assertTrue(self.db.autocommit)
        self.fill()
        rows = self.count()
        self.db.commit()
        self.db.rollback()
        self.assertEqual(self.count(), rows)
        # A transaction that SQL began is ended as well.
        for end, left in ((self.db.rollback, rows), (self.db.commit, 0)):
            self.db.sql("BEGIN")
            self.db.sql("DELETE FROM booze")
            self.assertTrue(self.db.in_transaction)
            end()
            self.assertFalse(self.db.in_transaction)
            self.assertEqual(self.count(), left)

    def test_without_autocommit_a_transaction_begins_by_itself(self):
        self.fill()
        rows = self.count()
        self.db.autocommit = False
        self.assertFalse(self.db.in_transaction)
        self.cursor.execute("INSERT INTO booze (name) VALUES (?)", ["one"])
        self.assertTrue(self.db.in_transaction)
        self.cursor.executemany("INSERT INTO booze (name) VALUES (?)", [["two"], ["three"]])
        self.assertEqual(self.count(), rows + 3)
        self.db.rollback()
        self.assertEqual(self.count(), rows)
        with self.assertRaises(tierra.ProgrammingError):
            self.db.autocommit = True
        self.db.commit()
        # What defines tables begins none.
        self.db.sql("CREATE TABLE outside (n INTEGER)")
        self.assertFalse(self.db.in_transaction)
        self.db.sql("INSERT INTO outside VALUES (1)")
        with self.assertRaises(tierra.NotSupportedError):
            self.db.load("outside", "no.csv")
        self.db.commit()
        self.db.autocommit = True
        self.assertEqual(self.db.sql("SELECT n FROM outside").fetchall(), [(1,)])

    def test_a_failed_transaction_is_not_committed_in_silence(self):
        self.fill()
        rows = self.count()
        self.db.autocommit = False
        self.db.sql("DELETE FROM booze")
        with self.assertRaises(tierra.ProgrammingError):
            self.db.sql("SELECT nosuch FROM booze")
        with self.assertRaises(tierra.OperationalError):
            self.db.sql("SELECT 1")
        with self.assertRaises(tierra.OperationalError):
            self.db.commit()
        self.assertFalse(self.db.in_transaction)
        self.assertEqual(self.count(), rows)

    def test_the_end_of_a_block_commits_or_rolls_back(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = f"{scratch}/db"
            watcher = tierra.connect(path)
            self.addCleanup(watcher.close)
            watcher.sql("CREATE TABLE t (n INTEGER)")
            count = lambda: watcher.sql("SELECT count(*) FROM t").fetchone()[0]
            for fails in (True, False):
                try:
                    with tierra.connect(path, autocommit=False) as db:
                        db.sql("INSERT INTO t VALUES (1)")
                        if fails:
                            raise KeyError
                except KeyError:
                    pass
                self.assertEqual(count(), int(not fails))
            with tierra.connect(path, autocommit=False) as db:
                db.sql("DELETE FROM t")
                db.close()
            self.assertEqual(count(), 1)
            watcher.close()

    def test_errors_have_their_classes(self):
        self.cursor.execute("CREATE TABLE k (id BIGINT PRIMARY KEY, n INTEGER NOT NULL)")
        self.cursor.execute("INSERT INTO k VALUES (1, 1)")
        for error, sql in (
            (tierra.ProgrammingError, "SELEC 1"),
            (tierra.ProgrammingError, "SELECT * FROM nosuch"),
            (tierra.ProgrammingError, "SELECT nosuch FROM k"),
            (tierra.ProgrammingError, "CREATE TABLE k (n BIGINT)"),
            (tierra.ProgrammingError, "SET tierra.nosuch = 1"),
            (tierra.IntegrityError, "INSERT INTO k VALUES (1, 2)"),
            (tierra.IntegrityError, "INSERT INTO k VALUES (2, NULL)"),
            (tierra.DataError, "INSERT INTO k VALUES (2, 3000000000)"),
            (tierra.DataError, "SELECT 1 / (n - 1) FROM k"),
            (tierra.NotSupportedError, "CREATE VIEW v AS SELECT 1"),
        ):
            with self.subTest(sql), self.assertRaises(error):
                self.cursor.execute(sql)
                self.cursor.fetchall()
        self.cursor.execute("SELECT count(*) FROM k")
        self.assertEqual(self.cursor.fetchone(), (1,))

    def test_parameters(self):
        def scalar(value):
            return self.db.sql("SELECT ?", [value]).fetchone()[0]

        for value in (1, -(1 << 63), True, 1.5, "x", None, datetime.date(2026, 2, 3),
                      datetime.datetime(2026, 2, 3, 4, 5, 6, 7), decimal.Decimal("1.20")):
            self.assertEqual(scalar(value), value)
        for wrong in ({"a": 1}, "text", 5):
            with self.assertRaises(tierra.ProgrammingError):
                self.db.sql("SELECT ?", wrong)
        with self.assertRaises(tierra.ProgrammingError):
            self.db.sql("SELECT ?", [object()])
        with self.assertRaises(tierra.ProgrammingError):
            self.db.sql("SELECT ?, ?", [1])
        with self.assertRaises(tierra.DataError):
            self.db.sql("SELECT ?", [decimal.Decimal("NaN")])
        with self.assertRaises(tierra.DataError):
            self.db.sql("SELECT ?", [decimal.Decimal("1e1000000000")])

    def test_lists(self):
        self.db.sql("CREATE TABLE n AS SELECT v FROM generate_series(1, 1000) s(v)")
        count = self.db.prepare("SELECT count(*) FROM n WHERE v = ANY(?)")
        self.assertEqual(count.parameters, ["BIGINT[]"])
        for some in ([1, 2, 3000], (5,), {7, 8}, range(1, 11), [], [None, 4], [1.0, 2.0][:0]):
            expected = len([v for v in some if v is not None and v <= 1000])
            self.assertEqual(count(some).fetchone(), (expected,), some)
        with self.assertRaises(tierra.DataError):
            count([1, "x"])


if __name__ == "__main__":
    unittest.main()
