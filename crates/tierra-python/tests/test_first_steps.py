"""The first minute: import, SQL, results that show themselves, files, errors."""

import os
import tempfile
import unittest

import tierra
from support import WithDatabase, run_script


class FirstSteps(WithDatabase):
    def test_rows_and_types(self):
        self.db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR, d DECIMAL(5, 2))")
        done = self.db.sql("INSERT INTO t VALUES (1, 'one', 1.25), (2, NULL, NULL)")
        self.assertEqual((done.rowcount, repr(done)), (2, "INSERT 2"))
        result = self.db.sql("SELECT * FROM t ORDER BY id")
        self.assertEqual(result.columns, ["id", "name", "d"])
        self.assertEqual(result.types, ["BIGINT", "VARCHAR", "DECIMAL(5, 2)"])
        self.assertEqual([row[:2] for row in result], [(1, "one"), (2, None)])
        self.assertEqual(len(result), 2)
        self.assertEqual(self.db.tables(), ["t"])

    def test_several_statements_give_the_last_result(self):
        last = self.db.sql("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (3); SELECT * FROM t")
        self.assertEqual(last.fetchall(), [(3,)])
        with self.assertRaisesRegex(tierra.ProgrammingError, "statement 2"):
            self.db.sql("SELECT 1; SELEC 2")
        with self.assertRaises(tierra.ProgrammingError):
            self.db.sql("  ")

    def test_a_result_shows_its_first_rows_and_keeps_them(self):
        result = self.db.sql("SELECT n, '<b>' || n AS t FROM generate_series(1, 100000) s(n) ORDER BY n")
        shown = repr(result)
        self.assertIn("<b>20", shown)
        self.assertNotIn("<b>21", shown)
        self.assertIn("more rows", shown)
        html = result._repr_html_()
        self.assertIn("<td>&lt;b&gt;20</td>", html)
        self.assertNotIn("<b>", html)
        self.assertEqual(result.fetchone()[0], 1)
        # The rest of a batch that was fetched in part is not lost.
        self.assertTrue(repr(result).count("\n") > 20)
        self.assertEqual(len(result.fetchall()), 99_999)
        self.assertEqual(result.rowcount, 100_000)

    def test_a_length_is_known_at_the_end(self):
        result = self.db.sql("SELECT * FROM generate_series(1, 3)")
        with self.assertRaises(TypeError):
            len(result)
        self.assertTrue(result)
        self.assertEqual(list(result), [(1,), (2,), (3,)])
        self.assertEqual(len(result), 3)

    def test_work_and_plan(self):
        self.db.sql("CREATE TABLE t AS SELECT n FROM generate_series(1, 2000000) s(n)")
        result = self.db.sql("SELECT sum(n) FROM t WHERE n > 7")
        self.assertIn("TierraScan", result.explain())
        result.fetchall()
        work = result.work
        self.assertGreater(work["blocks_read"], 1000)
        self.assertGreater(work["bytes_near"] + work["bytes_far"], 10_000)

    def test_closing(self):
        result = self.db.sql("SELECT * FROM generate_series(1, 10000000)")
        result.fetchone()
        self.db.close()
        self.db.close()
        for use in (lambda: self.db.sql("SELECT 1"), self.db.cursor, self.db.tables, self.db.commit):
            with self.assertRaisesRegex(tierra.InterfaceError, "closed"):
                use()
        with self.assertRaisesRegex(tierra.InterfaceError, "closed"):
            while result.fetchmany(100_000):
                pass
        self.assertIn("closed", repr(self.db))

    def test_it_is_durable_and_shared(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "db")
            with self.assertRaises(tierra.OperationalError):
                tierra.connect(path, create=False)
            with tierra.connect(path) as first, tierra.connect(path) as second:
                first.sql("CREATE TABLE t (n BIGINT)")
                second.sql("INSERT INTO t VALUES (1)")
                self.assertEqual(first.sql("SELECT * FROM t").fetchall(), [(1,)])
                other = run_script(
                    "import sys, tierra; tierra.connect(sys.argv[1])", path
                )
                self.assertIn("open in another process", other.stderr)
            again = run_script(
                "import sys, tierra; print(tierra.connect(sys.argv[1]).sql('SELECT * FROM t').fetchall())",
                path,
            )
            self.assertEqual(again.stdout, "[(1,)]\n", again.stderr)

    def test_options(self):
        with tierra.connect(near_memory="64M", threads=1, query_memory=1 << 28, execution="plain") as db:
            self.assertEqual(db.sql("SHOW tierra.threads").fetchone()[1], "1")
            self.assertEqual(db.sql("SHOW tierra.execution").fetchone()[1], "plain")
            self.assertEqual(db.sql("SHOW tierra.query_memory").fetchone()[1], "256M")
        for wrong in ({"near_memory": "much"}, {"execution": "fast"}, {"emulate": "moon"}):
            with self.assertRaises(tierra.ProgrammingError):
                tierra.connect(**wrong)

    def test_nothing_of_a_temporary_database_is_left(self):
        ended = run_script(
            """
            import os, tierra
            db = tierra.connect()
            db.sql("CREATE TABLE t AS SELECT n FROM generate_series(1, 100000) s(n) ORDER BY n")
            print(os.getpid())
            """
        )
        self.assertEqual(ended.stderr, "")
        mark = f"tierra-{ended.stdout.strip()}-"
        left = [name for name in os.listdir("/dev/shm") if name.startswith(mark)]
        self.assertEqual(left, [])

    def test_the_example(self):
        folder = os.path.join(os.path.dirname(__file__), "../../../examples")
        with open(os.path.join(folder, "python.py")) as program:
            ended = run_script(program.read())
        self.assertEqual(ended.returncode, 0, ended.stderr)
        lines = ended.stdout.splitlines()
        self.assertEqual(lines[:2], ["('Lima', Decimal('31.10'))", "(1001,)"])
        self.assertIn("Lima 200000 39.90", lines)
        self.assertIn("keys are unique", lines[-1])

    def test_the_command_line(self):
        with tempfile.TemporaryDirectory() as scratch:
            program = """
                import runpy, sys
                sys.argv = ["tierra", *sys.argv[1:]]
                runpy.run_module("tierra", run_name="__main__")
                """
            path = os.path.join(scratch, "db")
            made = run_script(program, "sql", "--create", "--db", path, "--format", "csv", "-c", "SELECT 6 * 7 AS answer")
            self.assertEqual((made.returncode, made.stdout), (0, "answer\n42\n"), made.stderr)
            self.assertEqual(run_script(program, "nosuch").returncode, 2)
            self.assertIn(tierra.__version__, run_script(program, "--version").stdout)


if __name__ == "__main__":
    unittest.main()
