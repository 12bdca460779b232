#!/usr/bin/env bash
# Looks for what the C++ build needs, with `packages.sh PYTHON tests` for what the tests do too, with `fuzz` for the
# fuzzers; installs Debian's packages for what is missing, and nothing if all is there.
#
# A thing is there if it can be used: a command runs, a header preprocesses, Python can make a virtual environment.
# Without apt-get, or without root and sudo, it prints the list and fails.
set -euo pipefail

python=${1:-python3}
purpose=${2:-build}
missing=()

need_command() { # COMMAND PACKAGE
  command -v "$1" >/dev/null || missing+=("$2")
}

need_header() { # HEADERS PACKAGE: any one of the headers will do
  local header
  for header in $1; do
    if g++ -std=c++20 -x c++ -E - <<<"#include <$header>" >/dev/null 2>&1; then return; fi
  done
  missing+=("$2")
}

need_command cmake cmake
need_command ninja ninja-build
need_command g++ g++
need_header "catch2/catch.hpp catch2/catch_all.hpp" catch2
need_header fmt/format.h libfmt-dev
need_header nlohmann/json.hpp nlohmann-json3-dev
need_header CLI/CLI.hpp libcli11-dev
need_header zstd.h libzstd-dev
need_header sha2.h libmd-dev
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
# The starter that engines are graded beside is eager PyTorch; on the CPU Debian's is small.
if [ "$purpose" = tests ]; then
  /usr/bin/python3 -c 'import torch' 2>/dev/null || missing+=(python3-torch)
fi

if [ "$purpose" = fuzz ]; then
  fuzzer='extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }'
  clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null <<<"$fuzzer" 2>/dev/null ||
    missing+=(clang libclang-rt-14-dev)
fi

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
if ! command -v apt-get >/dev/null || { [ ${#as_root[@]} -gt 0 ] && ! command -v sudo >/dev/null; }; then
  {
    echo "These packages are missing (names as in Debian 12) and can't be installed from here:"
    printf '    %s\n' "${missing[@]}"
    echo "Install them and run make again."
  } >&2
  exit 1
fi

echo "setup: installing ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
"${apt[@]}" update -qq
"${apt[@]}" install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
