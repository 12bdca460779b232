"""`python -m tools.bench`: the portable kernels beside a Triton kernel."""

import sys

from .portable import main

sys.exit(main())
