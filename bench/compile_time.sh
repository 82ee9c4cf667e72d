#!/usr/bin/env bash
# compile_time.sh [C++ compiler [include folder of heed [rounds]]]
# What heed costs a compilation: the include, one call, one rule more. The median of user CPU seconds over some rounds,
# taken in turn so that a slow minute strikes all of them alike.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
compiler=${1:-g++} include=$(cd "${2:-$here/../include}" && pwd) rounds=${3:-7}
flags=(-std=c++20 -O2)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

: >empty.cpp
echo '#include "heed/heed.hpp"' >include.cpp
# The standard headers that stand anywhere behind heed.hpp, without heed's own text.
"$compiler" "${flags[@]}" -I "$include" -MM include.cpp | tr -d '\\' | tr ' ' '\n' | grep '/heed/' |
  xargs grep -h '^#include <' | sort -u >standard.cpp

unit() { # name, statements
  cat >"$1.cpp" <<END
#include "heed/heed.hpp"
void run(float* q, float* k, float* v, float* o, [[maybe_unused]] bool const* m, long s, long d) {
  const auto query = heed::bhsd(q, 1, 1, s, d), key = heed::bhsd(k, 1, 1, s, d), value = heed::bhsd(v, 1, 1, s, d);
  const auto out = heed::bhsd(o, 1, 1, s, d);
  $2
}
END
}
plain='heed::attention(query, key, value, out);'
causal='heed::attention(query, key, value, out, heed::causal{});'
both='heed::attention(query, key, value, out, heed::causal{} & heed::keep_mask(heed::tensor_view<bool const, 2>(m, {s, s})));'
unit call "$plain"
unit again "$plain $plain"
unit rule "$plain $causal"
unit rules "$plain $causal $both"

user_seconds() { # of one compilation
  local TIMEFORMAT=%3U
  { time "$compiler" "${flags[@]}" -I "$include" -c "$1.cpp" -o "$1.o" 2>"$1.log" || { cat "$1.log" >&2; exit 1; }; } 2>&1
}

units=(empty standard include call again rule rules)
for unit in "${units[@]}"; do user_seconds "$unit" >/dev/null; done # reads the files once
for ((round = 0; round < rounds; ++round)); do
  for unit in "${units[@]}"; do user_seconds "$unit" >>"$unit.seconds"; done
done

median() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }
of() { median <"$1.seconds"; }
more_than() { paste "$1.seconds" "$2.seconds" | awk '{ printf "%.3f\n", $1 - $2 }' | median; } # round by round
row() { # title, seconds, budget or nothing
  awk -v title="$1" -v seconds="$2" -v budget="${3:-}" 'BEGIN {
    verdict = budget == "" ? "" : sprintf("%.2f (%s)", budget, seconds <= budget ? "kept" : "OVER")
    printf "| %-42s | %7.3f | %-11s |\n", title, seconds, verdict
  }'
}

echo "$("$compiler" --version | head -n 1), ${flags[*]}, median of $rounds rounds; load average $(cut -d ' ' -f 1-3 /proc/loadavg)"
echo
echo "| user CPU seconds                           |         | budget      |"
echo "|--------------------------------------------|--------:|-------------|"
row "an empty file" "$(of empty)"
row "the standard headers behind heed.hpp alone" "$(of standard)"
row "#include \"heed/heed.hpp\"" "$(of include)" 0.45
row "the include and one call" "$(of call)" 4
row "one more call with the same rule" "$(more_than again call)"
row "one more rule, causal{}" "$(more_than rule call)" 0.3
row "one more rule, causal{} & keep_mask(m)" "$(more_than rules rule)" 0.3
