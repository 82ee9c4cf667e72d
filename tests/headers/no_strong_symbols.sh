#!/usr/bin/env bash
# no_strong_symbols.sh <nm> <object>...: a strong symbol of heed in an object file would be a duplicate in the next one.
set -u
nm=$1
shift
found=0
seen=0
for object in "$@"; do
  symbols=$("$nm" -C --defined-only "$object") || exit 1
  seen=$((seen + $(grep -c 'heed::' <<<"$symbols")))
  if grep -E '^[0-9a-f]* [TDBRGS] .*heed::' <<<"$symbols"; then found=1; fi
done
if [ "$seen" -lt 10 ]; then
  echo "only $seen symbols of heed in these objects: nothing was tested"
  exit 1
fi
[ $found -eq 0 ] && echo "no strong symbol among $seen symbols of heed"
exit $found
