"""`python -m trex`: the trex command."""

import sys

from trex.cli import main

sys.exit(main())
