"""Installs the pinned NVRTC and ptxas into this virtual environment, unless stratum-gen already finds them.

    python toolchain.py STRATUM_GEN

Which versions, and which Python wheels hold them, stands in toolchain.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PIN = Path(__file__).resolve().parents[2] / "toolchain.json"


def main() -> int:
    """0 when the toolchain is there, else pip's exit code."""
    facts = json.loads(subprocess.run([sys.argv[1], "doctor", "--json"], check=True, capture_output=True).stdout)
    if "origin" in facts["toolchain"]:
        return 0
    wheels = json.loads(PIN.read_text())["wheels"]
    print(f"setup: installing {' '.join(wheels)}", flush=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *wheels]
    return subprocess.run(pip).returncode


if __name__ == "__main__":
    sys.exit(main())
