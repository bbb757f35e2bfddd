"""`python -m waggle` is the `waggle` command."""

import sys

from waggle.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
