#!/usr/bin/env bash
# Runs each fuzzer of a build folder for some time: fuzz.sh BUILD SECONDS. What they find lies in BUILD/finds, one file
# a find; inputs that reach more code are kept in BUILD/corpus for the next time.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
seconds=$2

rm -rf "$build/seeds"
"$build/tests/fuzz/fuzz_seeds" . "$build/seeds"
failed=()
for fuzzer in ptx run manifest zstd; do
  printf '\n== Fuzzing for %s s: %s\n' "$seconds" "$fuzzer"
  mkdir -p "$build/corpus/$fuzzer" "$build/finds"
  options=(-max_total_time="$seconds" -max_len=65536 -timeout=10 -verbosity=0 -print_final_stats=1
    -artifact_prefix="$build/finds/$fuzzer-")
  case $fuzzer in ptx | run) options+=(-dict=tests/fuzz/ptx.dict) ;; esac
  folders=("$build/corpus/$fuzzer" "$build/seeds/$fuzzer")
  if [ -d "tests/fuzz/inputs/$fuzzer" ]; then folders+=("tests/fuzz/inputs/$fuzzer"); fi
  "$build/tests/fuzz/${fuzzer}_fuzz" "${options[@]}" "${folders[@]}" || failed+=("$fuzzer")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "Found something: ${failed[*]}; the inputs are in $build/finds" >&2
  exit 1
fi
