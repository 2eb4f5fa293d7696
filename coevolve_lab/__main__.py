"""``python -m coevolve_lab`` is ``coevolve-lab``."""

import sys

from coevolve_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
