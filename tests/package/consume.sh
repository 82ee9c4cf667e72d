#!/usr/bin/env bash
# consume.sh <way> <source of heed> <scratch folder> <C++ compiler>
# Builds and runs the consumer, the way a user would who got heed by find_package, add_subdirectory, fetch_content,
# pkg_config or copy.
set -eu
way=$1 source=$2 scratch=$3 compiler=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$scratch"
mkdir -p "$scratch"

install_heed() {
  cmake -S "$source" -B "$scratch/heed" -DCMAKE_CXX_COMPILER="$compiler" -DHEED_BUILD_TESTS=OFF -DHEED_BUILD_EXAMPLES=OFF \
    -DHEED_BUILD_BENCH=OFF >"$scratch/configure.log" || { cat "$scratch/configure.log"; exit 1; }
  cmake --install "$scratch/heed" --prefix "$scratch/first" >/dev/null
  mv "$scratch/first" "$scratch/installed" # an installed tree may be moved
}

build_consumer() {
  cmake -S "$here/consumer" -B "$scratch/consumer" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Debug \
    -DHEED_WAY="$way" -DHEED_SOURCE="$source" "$@"
  cmake --build "$scratch/consumer"
  "$scratch/consumer/consumer"
}

case $way in
find_package)
  install_heed
  build_consumer -DCMAKE_PREFIX_PATH="$scratch/installed"
  # Headers have no pointer size: the version file may not turn a 32-bit project away.
  mkdir "$scratch/small"
  cat >"$scratch/small/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(pointer_size LANGUAGES CXX)
set(CMAKE_SIZEOF_VOID_P 4)
find_package(heed CONFIG REQUIRED)
EOF
  cmake -S "$scratch/small" -B "$scratch/small/build" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$scratch/installed" >/dev/null
  # A version that cannot be compatible is refused.
  sed -i 's/find_package(heed/find_package(heed 99.0/' "$scratch/small/CMakeLists.txt"
  if cmake -S "$scratch/small" -B "$scratch/small/build" >/dev/null 2>&1; then
    echo "find_package(heed 99.0) was satisfied"
    exit 1
  fi
  ;;
add_subdirectory | fetch_content)
  build_consumer
  ;;
pkg_config)
  install_heed
  export PKG_CONFIG_PATH="$scratch/installed/share/pkgconfig"
  flags=$(pkg-config --cflags --libs heed)
  echo "pkg-config says: $flags"
  if grep -qE -- '-(W|O|march|std|D|f)' <<<" $flags"; then
    echo "heed.pc leaks a flag"
    exit 1
  fi
  # shellcheck disable=SC2086 # flags are words
  "$compiler" -O2 -std=c++20 "$here/main.cpp" $flags -o "$scratch/consumer"
  "$scratch/consumer"
  ;;
copy)
  cp -r "$source/include" "$scratch/include"
  cp "$here/main.cpp" "$scratch"
  cd "$scratch"
  "$compiler" -O2 -std=c++20 -Iinclude main.cpp -o consumer
  ./consumer
  ;;
*)
  echo "unknown way: $way"
  exit 2
  ;;
esac
