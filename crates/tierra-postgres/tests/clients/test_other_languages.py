"""pgjdbc and node-postgres, whose packages are fetched into a cache."""

import os
import subprocess
from pathlib import Path

from support import WithServer, needs_program

HERE = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tierra-clients"


class OtherLanguages(WithServer):
    def run_in(self, command, directory, **variables):
        run = subprocess.run(command, cwd=directory, env=os.environ | variables, capture_output=True, text=True, timeout=300)
        return run.returncode, run.stdout + run.stderr

    def fetch(self, command, directory):
        """Leaves the test out where there is no network, or a slow one."""
        try:
            run = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            self.skipTest("fetching the driver takes too long")
        if run.returncode:
            self.skipTest(f"the driver cannot be fetched: {(run.stdout + run.stderr)[-300:]}")

    @needs_program("java", "mvn")
    def test_pgjdbc(self):
        jars = CACHE / "jdbc"
        if not list(jars.glob("postgresql-*.jar")):
            self.fetch(["mvn", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], HERE / "jdbc")
        url = f"jdbc:postgresql://127.0.0.1:{self.port}/tierra"
        code, output = self.run_in(["java", "-cp", f"{jars}/*", "Metadata.java", url, "alice", "secret"], HERE / "jdbc")
        self.assertEqual((code, output.strip()), (0, "metadata ok"), output)

    @needs_program("node", "npm")
    def test_node_postgres(self):
        packages = CACHE / "node"
        driver = packages / "node_modules/pg/lib/index.js"
        if not driver.exists():
            packages.mkdir(parents=True, exist_ok=True)
            self.fetch(["npm", "install", "--silent", "--prefix", str(packages), "pg@8"], packages)
        code, output = self.run_in(["node", "pg.mjs", self.url], HERE / "node", PG=str(driver))
        self.assertEqual((code, output.strip()), (0, "node ok"), output)
