"""A server for the tests: `tierra serve` on a database in shared memory."""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

TIERRA = os.environ["TIERRA"]


def needs(*modules):
    """Leaves a test out where a module is missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"needs {', '.join(missing)}")


def needs_program(*programs):
    """Leaves a test out where a program is missing."""
    missing = [name for name in programs if shutil.which(name) is None]
    return unittest.skipIf(missing, f"needs {', '.join(missing)}")


class WithServer(unittest.TestCase):
    """A server for all tests of a class; alice's password is `secret`."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        cls.addClassCleanup(scratch.cleanup)
        cls.database = f"{scratch.name}/db"
        subprocess.run([TIERRA, "sql", "--create", "--db", cls.database, "-c", "SELECT 1"], check=True, capture_output=True)
        users = f"{scratch.name}/users.toml"
        with open(users, "w") as file:
            subprocess.run([TIERRA, "user", "alice"], input=b"secret\n", stdout=file, check=True)
        cls.log = open(f"{scratch.name}/log", "w+")
        cls.addClassCleanup(cls.log.close)
        cls.server = subprocess.Popen(
            [TIERRA, "serve", "--db", cls.database, "--postgres", "127.0.0.1:0", "--users", users],
            stderr=cls.log,
        )
        cls.addClassCleanup(cls.stop)
        cls.port = cls.told_port(f"{scratch.name}/log")
        cls.url = f"postgresql://alice:secret@127.0.0.1:{cls.port}/tierra"

    @classmethod
    def told_port(cls, log):
        """The port that the server has chosen, once it listens."""
        began = time.monotonic()
        while time.monotonic() - began < 60 and cls.server.poll() is None:
            with open(log) as told:
                if found := re.search(r"listening for clients of PostgreSQL on 127\.0\.0\.1:(\d+)", told.read()):
                    return int(found[1])
            time.sleep(0.02)
        with open(log) as told:
            raise AssertionError(f"the server does not listen: {told.read()}")

    @classmethod
    def stop(cls):
        cls.server.terminate()
        assert cls.server.wait(timeout=90) == 0

    def resident_bytes(self):
        """The server's memory, without mapped files and pools."""
        with open(f"/proc/{self.server.pid}/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))
