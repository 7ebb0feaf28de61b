#!/bin/sh
# Run a command with the OpenCL platforms of its environment and, where its wheel is installed, Intel's CPU runtime.
# The wheel brings the library without an ICD file; the loader finds platforms in the folder that OCL_ICD_VENDORS names.
set -eu
python=$1
library=$("$python" -c 'import pathlib, sys; print(pathlib.Path(sys.prefix, "lib", "libintelocl.so"))')
if [ -f "$library" ] && [ -z "${OCL_ICD_VENDORS:-}" ]; then
    vendors=$(mktemp -d)
    trap 'rm -rf "$vendors"' EXIT
    echo "$library" >"$vendors/intel.icd"
    OCL_ICD_VENDORS=$vendors
    export OCL_ICD_VENDORS
fi
"$@"
