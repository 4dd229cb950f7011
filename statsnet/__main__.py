"""`python -m statsnet` is the command `statsnet`."""

import sys

from statsnet.cli import main

if __name__ == "__main__":
    sys.exit(main())
