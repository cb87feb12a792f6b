"""The page in a real browser: `python3 page.py`. Needs playwright and Debian's chromium; `TIERRA` names the binary.

With TIERRA_SCREENSHOTS a folder is filled with pictures to look at: wide and narrow, light and dark, 3 and 300 columns.
"""

import json
import os
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

from playwright.sync_api import sync_playwright

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "../../../target"))
TIERRA = os.environ.get("TIERRA", os.path.join(TARGET, "release/tierra"))
SCREENSHOTS = os.environ.get("TIERRA_SCREENSHOTS")
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]
LONG = "SELECT count(*) FROM generate_series(1, 100) a(x), generate_series(1, 10000000000) b(y) WHERE x * y % 7 = 3"
MARKUP = "<img src=x onerror=document.title='hacked'>"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def reach(process, port):
    """Waits until a server listens at its port."""
    for _ in range(3000):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert process.poll() is None, f"the server ended with {process.returncode}"
            time.sleep(0.02)
    raise AssertionError("the server does not listen after a minute")


class Server:
    """`tierra serve` on a database that these statements and loads make."""

    def __init__(self, near_memory, statements, loads=()):
        self.scratch = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        database = os.path.join(self.scratch.name, "db")
        for statement in statements:
            statement = statement.replace("$SCRATCH", self.scratch.name)
            self.command("sql", "--create", "--db", database, "-c", statement)
        for table, file in loads:
            self.command("load", table, os.path.join(self.scratch.name, file), "--db", database)
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.log = open(os.path.join(self.scratch.name, "log"), "w+")
        self.process = subprocess.Popen(
            [TIERRA, "serve", "--db", database, "--near-memory", near_memory, "--http", f"127.0.0.1:{self.port}",
             "--postgres", f"127.0.0.1:{free_port()}"],
            stderr=self.log,
        )
        reach(self.process, self.port)

    def command(self, *arguments):
        done = subprocess.run([TIERRA, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def post(self, sql, timeout=60):
        request = urllib.request.Request(f"{self.url}/sql", sql.encode(), {"Content-Type": "application/sql"})
        return urllib.request.urlopen(request, timeout=timeout)

    def rows(self, sql):
        with self.post(sql) as answer:
            return json.load(answer)["rows"]

    def close(self):
        self.process.terminate()
        assert self.process.wait(timeout=90) == 0
        self.log.close()
        self.scratch.cleanup()


class Records:
    """`tierra kv` with little near memory."""

    def __init__(self):
        self.port, http = free_port(), free_port()
        self.url = f"http://localhost:{http}"
        self.process = subprocess.Popen(
            [TIERRA, "kv", "--port", str(self.port), "--http", f"127.0.0.1:{http}", "--near-memory", "16mb", "--far-memory", "64mb"],
            stderr=subprocess.DEVNULL,
        )
        for port in (self.port, http):
            reach(self.process, port)

    def ask(self, commands, replies):
        """Sends inline commands together, and waits for as many replies, each a line or a line with a value."""
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.sendall("".join(f"{command}\r\n" for command in commands).encode())
            client.settimeout(60)
            told = b""
            while told.count(b"\r\n") < replies:
                some = client.recv(1 << 20)
                assert some, f"the server ended the connection after {told[-1000:]}"
                told += some
        return told

    def close(self):
        self.process.terminate()
        assert self.process.wait(timeout=90) == 0


class Browsed(unittest.TestCase):
    """What the tests of both pages have."""

    ready = None

    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        cls.addClassCleanup(cls.browser.close)

    def open(self, server=None, width=1600, height=1200, scheme="light"):
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.addCleanup(context.close)
        page = context.new_page()
        page.wrong = []
        page.on("console", lambda message: message.type in ("error", "warning") and page.wrong.append(message.text))
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.hosts = set()
        page.on("request", lambda request: page.hosts.add(request.url.split("/")[2]))
        url = (server or self.server).url
        page.goto(url)
        page.wait_for_selector(self.ready)
        return page

    def wait(self, page, condition):
        """Waits until a condition of JavaScript holds. Playwright's own way evaluates text in the page, which the policy refuses."""
        for _ in range(1200):
            if page.evaluate(condition):
                return
            time.sleep(0.05)
        self.fail(f"not within a minute: {condition}")

    def check(self, page):
        """What holds wherever the page is."""
        self.assertEqual(page.wrong, [])
        self.assertEqual(page.hosts, {page.url.split("/")[2]})
        widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        self.assertLessEqual(widths[0], widths[1], "the page is wider than the window")

    def keep(self, page, name):
        if SCREENSHOTS:
            os.makedirs(SCREENSHOTS, exist_ok=True)
            page.screenshot(path=os.path.join(SCREENSHOTS, f"{name}.png"), full_page=True)


class Page(Browsed):
    ready = "#tiers .tier"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # About 8 MiB a column, of which one is read most.
        cells = ", ".join(f"(value * {factor}) % 1000000007" for factor in (1103515245, 214013, 16807))
        cls.server = Server(
            "8M",
            [
                f'CREATE TABLE measured (hot BIGINT, warm BIGINT, "{MARKUP}" BIGINT)',
                f"INSERT INTO measured SELECT {cells} FROM generate_series(1, 2200000)",
            ],
        )
        cls.addClassCleanup(cls.server.close)

    def read(self, times=6):
        for number in range(times):
            self.server.rows("SELECT sum(hot) AS s FROM measured")
            if number % 3 == 0:
                self.server.rows("SELECT sum(warm) AS s FROM measured")

    def test_charts_follow_what_happens(self):
        page = self.open()
        self.read()
        paths = "[...document.querySelectorAll('#reads-chart path, #times-chart path, #help-chart path')].map((path) => path.getAttribute('d'))"
        time.sleep(2)
        before = page.evaluate(paths)
        self.read(3)
        for _ in range(1200):
            after = page.evaluate(paths)
            # The first chart shows shares, which may stay.
            if all(old != new for old, new in zip(before[2:], after[2:])):
                break
            time.sleep(0.05)
        self.assertEqual(len(after), 8, "an area with a line, two of these, two lines")
        for old, new in zip(before[2:], after[2:]):
            self.assertNotEqual(old, new)
        self.assertNotIn("NaN", "".join(after))
        self.assertIn("The budget of 8 MiB", page.inner_text("#help-words"))
        self.check(page)

    def test_numbers_are_those_of_the_tables(self):
        page = self.open()
        names = page.locator("#tiers .tier b").all_inner_texts()
        rows = self.server.rows("SELECT name, used_bytes FROM tierra_tiers")
        self.assertEqual([row["name"] for row in rows], [name for name in names if not name.endswith("%")])
        told = page.evaluate(
            """async () => { const { bytes } = await import('/format.js');
            const state = await (await fetch('/api/state')).json();
            return state.tiers.map((tier) => [tier.name, tier.used_bytes, bytes(tier.used_bytes)]); }""")
        self.assertEqual([one[:2] for one in told], [[row["name"], row["used_bytes"]] for row in rows])
        shown = page.inner_text("#tiers")
        for _, _, text in told:
            self.assertIn(text, shown)

    def test_names_stay_names(self):
        page = self.open()
        self.assertIn(f"measured.{MARKUP}", page.inner_text("#columns"))
        self.server.rows(f"SET tierra.slow_ms = 0; SELECT '{MARKUP.replace(chr(39), chr(39) * 2)}' AS x")
        self.wait(page, "document.querySelector('#slow').innerText.includes('<img')")
        self.assertEqual(page.locator("img").count(), 0)
        self.assertEqual(page.title(), "Tierra")
        self.check(page)

    def test_a_running_statement_is_cancelled_by_its_button(self):
        page = self.open()
        command = ["curl", "-s", "-H", "Content-Type: application/sql", "-d", LONG, f"{self.server.url}/sql"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            page.wait_for_selector("#running button")
            self.assertIn("generate_series", page.inner_text("#running"))
            # The row is not replaced while its numbers change.
            page.evaluate("document.querySelector('#running button').dataset.seen = 1")
            time.sleep(2.5)
            self.assertEqual(page.locator("#running button[data-seen]").count(), 1)
            page.click("#running button")
            answer, _ = client.communicate(timeout=60)
        self.assertEqual(json.loads(answer)["error"]["code"], "57014")
        self.wait(page, "document.querySelector('#running').innerText.includes('Nothing runs')")
        self.check(page)

    def test_the_box_runs_sql(self):
        page = self.open()

        def run(sql):
            page.fill("#sql", sql)
            page.click("#run")
            self.wait(page, "!document.querySelector('#run').disabled")
            return page.inner_text("#sql-words")

        self.assertIn("2 rows", run("SELECT 9223372036854775807 AS n, '<b>\"x\",\ny</b>' AS s UNION ALL SELECT NULL, ''"))
        cells = page.evaluate("[...document.querySelectorAll('#result tbody td')].map((cell) => [cell.textContent, cell.className])")
        self.assertCountEqual(cells, [["9223372036854775807", ""], ['<b>"x",\ny</b>', ""], ["NULL", "null"], ["", ""]])
        self.assertIn("42P01", run("SELECT * FROM nothing"))
        self.assertIn("the first 500 rows; there are more", run("SELECT value FROM generate_series(1, 1000000000)"))
        self.assertEqual(page.locator("#result tbody tr").count(), 500)
        self.assertIn("CREATE TABLE", run("CREATE TABLE made (n BIGINT)"))
        self.assertIn("INSERT 2", run("INSERT INTO made VALUES (1), (2)"))
        page.fill("#sql", LONG)
        page.click("#run")
        page.wait_for_selector("#running button")
        page.click("#stop")
        self.wait(page, "document.querySelector('#running').innerText.includes('Nothing runs')")
        self.assertIn("stopped", page.inner_text("#sql-words"))
        wrong = [text for text in page.wrong if "400" not in text]
        self.assertEqual(wrong, [])

    def test_it_fits_every_window(self):
        wide = ", ".join(f"(value * {1103515245 + number}) % 1000000007 AS column_{number}" for number in range(300))
        columns = ", ".join(f"column_{number} BIGINT" for number in range(300))
        many = Server(
            "16M",
            [
                f"COPY (SELECT {wide} FROM generate_series(1, 60000)) TO '$SCRATCH/wide.parquet'",
                f"CREATE TABLE a_table_with_a_name_that_is_rather_long ({columns})",
            ],
            [("a_table_with_a_name_that_is_rather_long", "wide.parquet")],
        )
        self.addCleanup(many.close)
        for number in range(120):
            # The first columns most.
            many.rows(f"SELECT sum(column_{number * number // 50}) AS s FROM a_table_with_a_name_that_is_rather_long")
        self.read()
        for name, server in (("3", self.server), ("300", many)):
            for scheme in ("light", "dark"):
                for width in (1600, 400):
                    page = self.open(server, width, 900, scheme)
                    page.fill("#sql", "SELECT * FROM tierra_columns")
                    page.click("#run")
                    self.wait(page, "!document.querySelector('#run').disabled")
                    self.read(2)
                    time.sleep(2.5)
                    self.check(page)
                    self.keep(page, f"{name}-{scheme}-{width}")
                    if name == "300":
                        page.click("#all-columns")
                        self.assertEqual(page.locator("#columns tbody tr").count(), 300)
                        self.check(page)


class RecordsPage(Browsed):
    ready = "#tiers .bar"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Records()
        cls.addClassCleanup(cls.server.close)
        # More than near memory holds.
        value = "x" * 1000
        cls.server.ask([f"SET key:{number} {value}" for number in range(30000)], 30000)

    def test_charts_follow_what_is_asked(self):
        page = self.open()
        time.sleep(2.5)
        for turn in range(3):
            gets = [f"GET key:{number * 7 % 30000}" for number in range(3000)]
            self.server.ask([*gets, f"GET nothing:{turn}", "WRONG"], 6002)
            time.sleep(1.2)
        self.wait(page, "document.querySelector('#hits-words').innerText.includes('99 % of 9003 keys')")
        self.assertRegex(page.inner_text("#commands-words"), "3 with an error")
        self.assertRegex(page.inner_text("#near-words"), "[0-9]+ % of [0-9.]+ MiB of records are near")
        self.assertRegex(page.inner_text("#lookups-words"), "keys were looked up in .* groups")
        self.assertRegex(page.inner_text("#reads-words"), "records that were fetched in this time were near")
        paths = page.evaluate("[...document.querySelectorAll('svg path')].map((path) => path.getAttribute('d'))")
        self.assertGreater(len(paths), 16)
        self.assertNotIn("NaN", "".join(paths))
        self.check(page)

    def test_numbers_are_those_of_the_metrics(self):
        page = self.open()
        time.sleep(2.5)
        with urllib.request.urlopen(f"{self.server.url}/metrics") as answer:
            metrics = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
        with urllib.request.urlopen(f"{self.server.url}/api/samples") as answer:
            samples = json.load(answer)
        newest = dict(zip(samples["names"], samples["samples"][-1][1]))
        self.assertEqual(newest["keys"], 30000)
        for speed in ("near", "far"):
            self.assertEqual(newest[f"{speed}_records"], int(metrics[f'tierra_kv_records{{speed="{speed}"}}']))
            self.assertGreater(newest[f"{speed}_records"], 0)
            self.assertEqual(newest[f"{speed}_limit_bytes"], int(metrics[f'tierra_kv_limit_bytes{{speed="{speed}"}}']))
        self.assertIn("30 k keys", page.inner_text("#gone-words"))
        self.check(page)

    def test_it_fits_every_window(self):
        for scheme in ("light", "dark"):
            for width in (1600, 400):
                page = self.open(width=width, height=900, scheme=scheme)
                time.sleep(2.5)
                self.check(page)
                self.keep(page, f"kv-{scheme}-{width}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
