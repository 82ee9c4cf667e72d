#!/usr/bin/env bash
# run.sh
# The attention operators' cases of ONNX's backend test suite, through heed: makes an environment for the packages of
# requirements.txt (about 150 MB on disk), writes the cases into build/operators, compiles the program beside this file
# (about a minute) and runs it at every instruction set level of the machine. The exit status is 0 where all is well.
#   CXX=clang++   another compiler
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/operators
mkdir -p "$build"
if [ ! -x "$build/venv/bin/python" ]; then
  python3 -m venv "$build/venv" || { echo "run.sh needs python3 with venv: apt-get install python3-venv" >&2; exit 1; }
fi
"$build/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
rm -rf "$build/cases"
"$build/venv/bin/python" "$here/export.py" "$build/cases"
"${CXX:-g++}" -O2 -std=c++20 -Wall -Wextra -Wconversion -Wsign-conversion -Werror -I "$root/include" -pthread \
  -o "$build/operators" "$here/operators.cpp"
wrong=0
ran=0
for level in v1 v3 v4 neon; do
  status=0
  HEED_ISA=$level "$build/operators" "$build/cases" 2>"$build/errors.log" || status=$?
  case $status in
    0) ran=$((ran + 1)) ;;
    77) echo "$level: not on this machine" ;;
    *) wrong=1; cat "$build/errors.log" >&2 ;;
  esac
done
[ "$wrong" -eq 0 ] && [ "$ran" -gt 0 ]
