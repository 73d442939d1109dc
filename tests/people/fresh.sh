#!/usr/bin/env bash
# What a newcomer would try, in a fresh environment: both commands of README, every example of README, of the
# documentation and of the command line word for word, all notebooks, the site, wrong words and calls, Ctrl-C.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$top/.ci/run"
git clone --quiet "$top" "$place/clone"
cd "$place/clone"
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q -e '.[test,docs]'
"$place/venv/bin/python" -m pytest -m "slow or not slow" tests/people tests/docs/test_docs_site.py tests/docs/test_notebooks.py
