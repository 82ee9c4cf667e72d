#!/usr/bin/env bash
# block.sh <markdown file> <language> <number>: prints that fenced block of that language, counted from 1.
# .ci/run takes its commands from the README through this, so that they can never differ.
exec awk -v language="$2" -v wanted="$3" '
  /^```/ { if (inside) inside = 0; else { inside = 1; name = substr($0, 4); if (name == language) count++ } next }
  inside && name == language && count == wanted { print; found = 1 }
  END { exit !found }' "$1"
