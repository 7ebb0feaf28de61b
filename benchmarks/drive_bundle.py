"""Save or load a bundle, as its user does; print processor seconds and a checksum as JSON.

python drive_bundle.py save COUNT FILE     launch kernels, flush, then save
python drive_bundle.py load COUNT FILE     load, then launch kernels; COUNT may be 0
python drive_bundle.py import              import pyopencl
"""

from __future__ import annotations

import json
import pathlib
import sys
import time


def main(mode: str, count: str = "0", file: str = "") -> None:
    began = time.process_time()
    if mode == "import":
        import pyopencl  # noqa: F401

        print(json.dumps({"cpu": time.process_time() - began}))
        return
    import kcl

    checksum, outcomes = "", []
    kcl.add_hook(lambda event: outcomes.append(event.outcome))
    if mode == "load":
        began = time.process_time()
        info = kcl.load_artifacts(file)
        seconds = time.process_time() - began
    if int(count):
        import drive_kcl

        checksum = drive_kcl.launch(int(count)).checksum()
    if mode == "save":
        kcl.flush()
        began = time.process_time()
        data, info = kcl.save_artifacts()
        seconds = time.process_time() - began
        pathlib.Path(file).write_bytes(data)
    found = {
        "cpu": seconds,
        "checksum": checksum,
        "programs": len(info.binary_artifacts),
        "missed": len(outcomes) - outcomes.count("hit"),
    }
    print(json.dumps(found | {"loopy": "loopy" in sys.modules}))


if __name__ == "__main__":
    main(*sys.argv[1:])
