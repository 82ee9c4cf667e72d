#!/usr/bin/env bash
# check.sh <markdown file> <source of heed> <scratch folder> <C++ compiler>
# What a text shows must work: whole programs are compiled and run, and what the text says they print is compared;
# C++ fragments are compiled against tests/docs/prelude.hpp; CMake fragments build a program; shell lines are parsed, and
# the presets they name must exist.
set -eu
document=$1 source=$2 scratch=$3 compiler=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$scratch"
mkdir -p "$scratch"
flags=(-std=c++20 -Wall -Wextra -Wpedantic -Werror)

fail() {
  echo "$document: $*"
  exit 1
}

block() { bash "$here/block.sh" "$document" "$1" "$2"; }

checked=0

# Programs and fragments.
number=1
fragments="$scratch/fragments.cpp"
printf '#include "docs/prelude.hpp"\n' >"$fragments"
while block cpp $number >"$scratch/block.cpp"; do
  if grep -q '^int main' "$scratch/block.cpp"; then
    cp "$scratch/block.cpp" "$scratch/program_$number.cpp"
  else
    { grep '^#include' "$scratch/block.cpp" || true; } >>"$fragments"
    printf 'void fragment_%d() {\n' $number >>"$scratch/bodies.cpp"
    grep -v '^#include' "$scratch/block.cpp" >>"$scratch/bodies.cpp"
    printf '}\n' >>"$scratch/bodies.cpp"
  fi
  number=$((number + 1))
  checked=$((checked + 1))
done
if [ -f "$scratch/bodies.cpp" ]; then
  cat "$scratch/bodies.cpp" >>"$fragments"
  "$compiler" "${flags[@]}" -Wno-unused -fsyntax-only -I"$source/include" -I"$source/tests" "$fragments" ||
    fail "a C++ fragment does not compile"
fi

# A console block is a session in the folder of the project: "$ command" lines and what they print. The program it
# compiles by a *.cpp name is the nearest whole program above it; those are counted in the order they stand.
ln -s "$source/include" "$scratch/include"
ln -s "$source/examples" "$scratch/examples"
programs=("$scratch"/program_*.cpp)
session=1
while block console $session >"$scratch/session"; do
  commands=$(sed -n 's/^\$ //p' "$scratch/session")
  name=$(grep -o '[a-z0-9_]*\.cpp' <<<"$commands" | head -n 1 || true)
  if [ -n "$name" ] && ! grep -q "examples/" <<<"$commands"; then
    [ -f "${programs[session - 1]:-}" ] || fail "console block $session compiles $name, but there is no such program"
    cp "${programs[session - 1]}" "$scratch/$name"
  fi
  grep -v '^\$ ' "$scratch/session" >"$scratch/expected" || true
  commands=${commands//g++ /"$compiler" }
  (cd "$scratch" && bash -eu -c "$commands") >"$scratch/printed" || fail "console block $session fails"
  diff "$scratch/expected" "$scratch/printed" || fail "console block $session prints something else (>)"
  session=$((session + 1))
  checked=$((checked + 1))
done
for program in "${programs[@]:$((session - 1))}"; do
  [ -f "$program" ] || continue
  "$compiler" "${flags[@]}" -O1 -I"$source/include" "$program" -o "$scratch/program" -pthread ||
    fail "a program does not compile"
  "$scratch/program" >/dev/null || fail "a program fails"
done

# CMake: each block is what a user adds to a project that has a program `app`.
number=1
while block cmake $number >"$scratch/block.cmake"; do
  project="$scratch/project_$number"
  mkdir "$project"
  cp "$here/../package/main.cpp" "$project"
  ln -s "$source" "$project/heed"
  {
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(app LANGUAGES CXX)\nadd_executable(app main.cpp)\n'
    cat "$scratch/block.cmake"
  } >"$project/CMakeLists.txt"
  if [ ! -d "$scratch/installed" ]; then
    cmake -S "$source" -B "$scratch/heed" -DCMAKE_CXX_COMPILER="$compiler" -DHEED_BUILD_TESTS=OFF \
      -DHEED_BUILD_EXAMPLES=OFF -DHEED_BUILD_BENCH=OFF >/dev/null
    cmake --install "$scratch/heed" --prefix "$scratch/installed" >/dev/null
  fi
  {
    cmake -S "$project" -B "$project/build" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$scratch/installed" &&
      cmake --build "$project/build" && "$project/build/app"
  } >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "CMake block $number does not build"; }
  number=$((number + 1))
  checked=$((checked + 1))
done

# Shell lines.
number=1
while block sh $number >"$scratch/block.sh"; do
  bash -n "$scratch/block.sh" || fail "shell block $number is no shell"
  for preset in $(grep -oE -- '--preset[ =][a-z-]+' "$scratch/block.sh" | sed 's/--preset[ =]//'); do
    grep -q "\"name\": \"$preset\"" "$source/CMakePresets.json" || fail "shell block $number: no preset $preset"
  done
  number=$((number + 1))
  checked=$((checked + 1))
done
echo "$document: $checked blocks checked"
