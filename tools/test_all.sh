#!/bin/sh
# Run the tests under each supported interpreter that is installed, and name those that are not.
set -u
status=0
for version in 3.10 3.11 3.12 3.13 3.14; do
    if ! "python$version" -c 'import venv' >/dev/null 2>&1; then
        echo "python$version: skipped, not installed"
        continue
    fi
    echo "python$version: testing"
    make test PYTHON="python$version" VENV=".venv-$version" || status=1
done
exit $status
