"""psql and pgbench, as they are installed."""

import subprocess
import tempfile

from support import WithServer, needs_program


@needs_program("psql", "pgbench")
class Psql(WithServer):
    def psql(self, *arguments, text=None):
        run = subprocess.run(
            ["psql", self.url, "-X", "-v", "ON_ERROR_STOP=1", *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_statements_and_copies(self):
        self.psql("-c", "CREATE TABLE p (id BIGINT PRIMARY KEY, s VARCHAR)")
        self.psql("-c", "\\copy p FROM STDIN (FORMAT csv)", text="1,a\n2,\"b,c\"\n3,\n")
        self.assertEqual(self.psql("-At", "-c", "SELECT * FROM p ORDER BY id"), "1|a\n2|b,c\n3|\n")
        self.assertEqual(self.psql("-c", "\\copy p TO STDOUT"), "1\ta\n2\tb,c\n3\t\\N\n")
        self.psql(text="BEGIN;\nINSERT INTO p VALUES (4, 'd');\nROLLBACK;\n")
        self.assertEqual(self.psql("-At", "-c", "SELECT count(*) FROM p"), "3\n")
        self.assertIn("You are connected", self.psql("-c", "\\conninfo"))
        self.assertEqual(self.psql("-At", "-v", "FETCH_COUNT=100", "-c", "SELECT count(*) FROM p"), "3\n")
        rows = self.psql("-At", "--set=FETCH_COUNT=100", text="SELECT value FROM generate_series(1, 1000);\n")
        self.assertEqual(len(rows.splitlines()), 1000)

    def test_a_wrong_password(self):
        url = self.url.replace("secret", "wrong")
        run = subprocess.run(["psql", url, "-X", "-c", "SELECT 1"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn('password authentication failed for user "alice"', run.stderr)

    def test_pgbench(self):
        self.psql("-c", "CREATE TABLE b (id BIGINT PRIMARY KEY, n BIGINT, s VARCHAR)")
        self.psql("-c", "INSERT INTO b SELECT value, value * 2, 'row' FROM generate_series(1, 10000)")
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write("\\set id random(1, 10000)\nSELECT id, n, s FROM b WHERE id = :id;\n")
            script.write("UPDATE b SET n = n + 1 WHERE id = :id;\n")
            script.flush()
            for mode in ("simple", "extended", "prepared"):
                run = subprocess.run(
                    ["pgbench", "-n", "-M", mode, "-f", script.name, "-c", "4", "-t", "50", self.url],
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("number of failed transactions: 0", run.stdout)
        self.assertEqual(self.psql("-At", "-c", "SELECT sum(n) FROM b"), f"{10000 * 10001 + 600}\n")

    def test_tables_are_described(self):
        self.psql("-c", "CREATE TABLE described (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, price DECIMAL(9, 2))")
        for command in ("\\l", "\\l+", "\\dn", "\\dn+", "\\dt", "\\dt+", "\\d", "\\di", "\\df", "\\du", "\\dv", "\\ds", "\\dT", "\\dx", "\\des", "\\di+", "\\dp", "\\dS pg_class", "\\dA", "\\db+", "\\dD"):
            with self.subTest(command):
                self.psql("-c", command)
        self.assertIn("public|described|table|alice\n", self.psql("-At", "-c", "\\dt"))
        self.assertIn("public|described|table|alice\n", self.psql("-At", "-c", "\\dt desc*"))
        self.assertEqual(self.psql("-At", "-c", "\\dt nosuch*"), "")
        self.assertIn("tierra|alice|UTF8|C|C.UTF-8|", self.psql("-At", "-c", "\\l"))
        table = self.psql("-c", "\\d described")
        for part in (
            'Table "public.described"',
            "id     | bigint       |           | not null | ",
            "name   | text         |           | not null | ",
            "price  | numeric(9,2) |           |          | ",
            '"described_pkey" PRIMARY KEY, tierra_key (id)',
        ):
            self.assertIn(part, table)
        self.assertIn("| main ", self.psql("-c", "\\d+ described"))
        self.assertIn("public|described_pkey|index|alice|described\n", self.psql("-At", "-c", "\\di"))
