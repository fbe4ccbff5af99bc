"""Start the upgrade controller in its image, whose standard library is a node's: partly in one file."""

import os
import sys

LIB = "/usr/lib/talos"
STDLIB, WHEELS = "/usr/lib/python3.13", "/usr/lib/python3/dist-packages"
sys.path[:] = [LIB, STDLIB, f"{STDLIB}/lib-dynload", WHEELS]
# Where time zones are would else be asked of build settings, which nodes do not have.
os.environ["PYTHONTZPATH"] = "/usr/share/zoneinfo"

from talos.startup import bundle  # noqa: E402 - found by the path above

bundle.install([f"{folder}/start.bundle" for folder in (STDLIB, WHEELS)])

from talos.upgrade_controller.main import main  # noqa: E402

sys.exit(main())
