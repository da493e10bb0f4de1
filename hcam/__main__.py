"""`python -m hcam` is the command line."""

import sys

from hcam.cli import main

sys.exit(main())
