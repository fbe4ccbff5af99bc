"""Make $out/bin/bash of Debian's in $debian, bound to the loader and libraries beside it."""

import os
import shutil
import subprocess
from pathlib import Path

LIBRARIES = ("ld-linux-x86-64.so.2", "libc.so.6", "libtinfo.so.6")

out, debian = Path(os.environ["out"]), Path(os.environ["debian"])
for folder in ("bin", "lib"):
    (out / folder).mkdir(parents=True)
for name in LIBRARIES:
    shutil.copy((debian / "usr/lib/x86_64-linux-gnu" / name).resolve(), out / "lib" / name)
program = out / "bin/bash"
shutil.copy(debian / "usr/bin/bash", program)
program.chmod(0o755)
subprocess.run(["patchelf", "--force-rpath", "--set-rpath", out / "lib", program], check=True)
subprocess.run(["patchelf", "--set-interpreter", out / "lib" / LIBRARIES[0], program], check=True)
