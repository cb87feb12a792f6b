"""What the tests share."""

import importlib.util
import subprocess
import sys
import textwrap
import unittest

import tierra

# Runs for minutes unless it is stopped.
LONG = """SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 1000000) b(y)
          WHERE x * y % 7 = 3"""


def needs(*modules):
    """Leaves a test out where a module is missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"needs {', '.join(missing)}")


def run_script(text, *arguments, **options):
    """Runs a program of Python and returns how it ended."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(text), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def resident_bytes():
    """The memory of this process, without mapped files and pools."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


class WithDatabase(unittest.TestCase):
    """Each test has a temporary database."""

    def setUp(self):
        self.db = tierra.connect()
        self.addCleanup(self.db.close)
