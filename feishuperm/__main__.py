"""`python3 -m feishuperm`, for work in the source tree."""

from __future__ import annotations

import sys

from feishuperm.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
