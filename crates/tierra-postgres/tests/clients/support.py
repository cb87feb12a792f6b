"""A server for the tests: `tierra serve` on a database in shared memory."""

import importlib.util
import os
import shutil
import socket
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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
        cls.port = free_port()
        cls.log = open(f"{scratch.name}/log", "w+")
        cls.addClassCleanup(cls.log.close)
        cls.server = subprocess.Popen(
            [TIERRA, "serve", "--db", cls.database, "--postgres", f"127.0.0.1:{cls.port}", "--users", users],
            stderr=cls.log,
        )
        cls.addClassCleanup(cls.stop)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", cls.port)).close()
                break
            except OSError:
                time.sleep(0.02)
        cls.url = f"postgresql://alice:secret@127.0.0.1:{cls.port}/tierra"

    @classmethod
    def stop(cls):
        cls.server.terminate()
        assert cls.server.wait(timeout=30) == 0

    def resident_bytes(self):
        """The server's memory, without mapped files and pools."""
        with open(f"/proc/{self.server.pid}/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))
