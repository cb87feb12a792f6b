"""The command line: `python -m tierra`, and the script `tierra`."""

import signal
import sys

from ._tierra import run_command


def main() -> int:
    """Runs the command of this process and returns its exit status."""
    # Python would only note Ctrl-C, and look at it when the command has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["tierra", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
