#!/usr/bin/env bash
# run.sh [option of rivals.py...]
# heed beside PyTorch, ONNX Runtime and OpenVINO: makes an environment for the packages (torch is large: some gigabytes on
# disk), compiles heed, measures all cells (about half an hour), prints the table in Markdown and draws a picture: that of
# the README when there are no options, else build/rivals/forward.svg. All figures stay in build/rivals/rivals.json.
#   HEED_RIVALS_VENV=<folder>   an environment that is there already
#   CXX=clang++                 the compiler for heed
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$here/../.." && pwd)/build/rivals
venv=${HEED_RIVALS_VENV:-$build/venv}
mkdir -p "$build"
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv" || { echo "run.sh needs python3 with venv: apt-get install python3-venv" >&2; exit 1; }
fi
"$venv/bin/python" -c 'import numpy, onnx, onnxruntime, openvino, torch' 2>"$build/import.log" ||
  "$venv/bin/pip" install --quiet -r "$here/requirements.txt" >&2
picture=$here/forward.svg
if [ $# -gt 0 ]; then picture=$build/forward.svg; fi
exec "$venv/bin/python" "$here/rivals.py" --json "$build/rivals.json" --picture "$picture" "$@"
