#!/usr/bin/env bash
# run.sh [bench...]
# Builds the benches and runs them one after another, pinned to the last core (two for threads and backward), for half an hour without
# arguments: the whole table in Markdown on stdout. What Google Benchmark stores goes to <build>/figures*/<bench>.json.
#   CXX=clang++            another compiler, in a build folder of its own
#   HEED_ISA=v3            a lower instruction set, and its peak
#   HEED_BENCH_SECONDS=6   more time for a cell
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
build=build/bench${CXX:+-$(basename "$CXX")}
figures=$build/figures${HEED_ISA:+-$HEED_ISA}

benches=("$@")
if [ ${#benches[@]} -eq 0 ]; then
  benches=(forward causal types layouts short decode threads backward rules denormals ladder rivals compile_time)
fi
{
  cmake --preset bench -B "$build"
  cmake --build "$build" --target benches
} >&2
mkdir -p "$figures"

# The last cores that this shell may run on, as taskset writes them.
last_cores() {
  taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); ++i) print i }' |
    tail -n "$1" | paste -sd ,
}

for bench in "${benches[@]}"; do
  printf '## %s\n\n' "$bench"
  if [ "$bench" = compile_time ]; then
    bash bench/compile_time.sh "${CXX:-g++}"
    continue
  fi
  cores=1
  if [ "$bench" = threads ] || [ "$bench" = backward ]; then cores=2; fi
  program=$(find "$build/bench" -type f -name "bench_$bench")
  pinned=()
  if command -v taskset >/dev/null; then pinned=(taskset -c "$(last_cores $cores)"); fi
  "${pinned[@]}" "$program" --benchmark_out="$figures/$bench.json" --benchmark_out_format=json
  echo
done
