"""Threads, signals and forks: nobody waits with the interpreter held, Ctrl-C ends a query, a child leaves the database alone."""

import os
import signal
import tempfile
import threading
import time
import unittest

import tierra
from support import LONG, WithDatabase, run_script


def count_to(most):
    """The seconds that Python takes to count."""
    began = time.perf_counter()
    count = 0
    while count < most:
        count += 1
    return time.perf_counter() - began


class Threads(WithDatabase):
    def test_another_thread_runs_while_a_query_does(self):
        db = tierra.connect(threads=1)
        self.addCleanup(db.close)
        ended = []

        def query():
            try:
                db.sql(LONG).fetchall()
            except tierra.OperationalError as error:
                ended.append(str(error))

        thread = threading.Thread(target=query)
        alone = min(count_to(3_000_000) for _ in range(3))
        thread.start()
        time.sleep(0.2)
        beside = min(count_to(3_000_000) for _ in range(5))
        self.assertTrue(thread.is_alive())
        db.interrupt()
        thread.join(60)
        self.assertEqual(ended, ["the statement was cancelled"])
        # A thread that held the interpreter would not let this one count at all.
        self.assertLess(beside, alone / 0.8 if (os.cpu_count() or 1) > 3 else alone * 6)

    def test_threads_share_a_connection(self):
        self.db.sql("CREATE TABLE t AS SELECT v FROM generate_series(1, 100000) s(v)")
        results, point = [], self.db.prepare("SELECT count(*) FROM t WHERE v <= ?")

        def work(number):
            for turn in range(20):
                most = number * 100 + turn
                results.append(point(most).fetchone() == (most,))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [True] * 160)

    def test_threads_share_a_result(self):
        result, seen = self.db.sql("SELECT * FROM generate_series(1, 50000)"), []

        def work():
            while rows := result.fetchmany(7):
                seen.extend(rows)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(seen), [(n,) for n in range(1, 50_001)])


class Signals(WithDatabase):
    def interrupted(self, work):
        """The seconds from Ctrl-C to KeyboardInterrupt."""
        sent = []

        def press():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.5, press)
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            work()
        timer.join()
        return time.monotonic() - sent[0]

    def test_ctrl_c_ends_a_query(self):
        for work in (lambda: self.db.sql(LONG).fetchall(), lambda: self.db.sql(f"CREATE TABLE u AS {LONG}")):
            waited = self.interrupted(work)
            # The query would go on for minutes; a busy machine takes its time.
            self.assertLess(waited, 30)
            self.assertEqual(self.db.sql("SELECT 1").fetchone(), (1,))
            self.assertEqual(self.db.tables(), [])
        self.assertEqual(self.db.sql("SELECT count(*) FROM tierra_queries").fetchone(), (1,))


class Forks(unittest.TestCase):
    def test_a_child_leaves_the_database_to_its_parent(self):
        with tempfile.TemporaryDirectory() as scratch:
            ended = run_script(
                """
                import os, subprocess, sys, warnings
                warnings.simplefilter("ignore")
                import tierra

                db = tierra.connect(sys.argv[1])
                db.sql("CREATE TABLE t (n BIGINT)")
                rows = db.sql("SELECT * FROM generate_series(1, 1000000)")
                rows.fetchone()
                child = os.fork()
                if child == 0:
                    for use in (lambda: db.sql("SELECT 1"), lambda: rows.fetchone(), lambda: tierra.connect(),
                                lambda: db.load("t", "x.csv"), lambda: rows.fetchall()):
                        try:
                            use()
                            print("a child may use it", flush=True)
                        except tierra.InterfaceError as error:
                            assert "fork" in str(error), error
                    db.close()
                    del db, rows
                    sys.exit(7)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
                other = [sys.executable, "-c", "import sys, tierra; tierra.connect(sys.argv[1])", sys.argv[1]]
                refused = subprocess.run(other, capture_output=True, text=True)
                assert "open in another process" in refused.stderr, refused
                db.sql("INSERT INTO t VALUES (1)")
                print(db.sql("SELECT * FROM t").fetchall(), len(rows.fetchall()))
                """,
                os.path.join(scratch, "db"),
            )
            self.assertEqual(ended.stdout, "[(1,)] 999999\n", ended.stderr)

    def test_a_fork_before_the_first_use_is_free(self):
        ended = run_script(
            """
            import os, warnings
            warnings.simplefilter("ignore")
            import tierra

            child = os.fork()
            answer = tierra.connect().sql("SELECT 6 * 7").fetchone()
            if child == 0:
                os._exit(answer[0])
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), answer)
            """
        )
        self.assertEqual(ended.stdout, "42 (42,)\n", ended.stderr)


if __name__ == "__main__":
    unittest.main()
