#!/usr/bin/env bash
# Runs tests, and tells at the end which took longest and how many there were. The control plane must be built.
#
#   suite.sh [all] [NAME]
#
# `all`: the whole matrices too, which are ignored otherwise. NAME: only the behaviour tests of tests/behaviour/NAME.rs, or
# of the folder NAME there.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# More than two cores: most of a behaviour test is waiting for something else than a core.
threads=${RUST_TEST_THREADS:-6}
# Leases, and servers that stand still: with many tests beside it an operator loses its lease for want of a core.
timed=behaviour::timed::
timed_threads=3

ignored=
if [[ ${1:-} == all ]]; then
  ignored=--include-ignored
  shift
fi

name=${1:-}
if [[ $name ]]; then
  case $(cd tests/behaviour && ls -d "$name.rs" "$name" "timed/$name.rs" 2>/dev/null) in
    '') echo "there is no tests/behaviour/$name.rs" >&2; exit 2 ;;
    timed*) threads=$timed_threads ;;
  esac
fi

log=${CARGO_TARGET_DIR:-target}/tests.log
mkdir -p "$(dirname "$log")"
: >"$log"

# run THREADS CARGO_ARGUMENT...
run() {
  export RUST_TEST_THREADS=$1
  shift
  cargo --config "target.'cfg(all())'.runner = ['$PWD/tests/report-time']" test --no-fail-fast "$@" $ignored 2>&1 | tee -a "$log"
}

# The last line has the form that tools look for which count tests.
summary() {
  local status=$?
  echo
  echo "the slowest tests:"
  sed -nE 's/^test (.*) \.\.\. .*<([0-9.]+)s>$/\2 s  \1/p' "$log" | sort -rn | sed -n 1,10p
  # What did not get as far as a result failed as well.
  awk -v status=$status '/^test result: / { passed += $4; failed += $6; ignored += $8 }
    END { if (status && !failed) failed = 1
      printf "\n%d passed, %d failed, %d skipped\n", passed, failed, ignored }' "$log"
}
trap summary EXIT

if [[ $name ]]; then
  run "$threads" --test behaviour -- "::$name::"
else
  status=0
  run "$threads" -- --skip "$timed" || status=$?
  run "$timed_threads" --test behaviour -- "$timed" || status=$?
  exit $status
fi
