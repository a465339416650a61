#!/usr/bin/env bash
# One control plane that stays up in the background, for trying things by hand.
#
#   cluster.sh [start [LAUNCHER FLAG...]]   build if needed, start, print how to use it
#   cluster.sh status                       the launcher's JSON line; fails when nothing runs
#   cluster.sh stop                         stop it and remove its data
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(cd "$here/../.." && pwd)/target/devcluster
bin=$out/bin
run=$out/run

# running: the stored pid is alive and really is our launcher, not a later owner of the number.
running() {
  local pid
  pid=$(cat "$run/pid" 2>/dev/null) || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "-dir $run/state"
}

start() {
  "$here/build.sh" cluster
  mkdir -p "$run"
  exec 9>"$run/lock"
  flock 9
  if running; then
    echo "already running"
  else
    rm -rf "$run/state" # left behind when the launcher was killed with SIGKILL
    : >"$run/stdout"
    setsid nohup "$bin/devcluster" -dir "$run/state" "$@" </dev/null >"$run/stdout" 2>"$run/launcher.log" 9>&- &
    echo $! >"$run/pid"
    until [[ -s $run/stdout ]]; do
      kill -0 $! 2>/dev/null || { cat "$run/launcher.log" >&2; rm -f "$run/pid"; exit 1; }
      sleep 0.1
    done
  fi
  echo "export KUBECONFIG=$run/state/kubeconfig"
  echo "kubectl: $bin/kubectl   logs: $run/state/log   stop: $here/cluster.sh stop"
}

stop() {
  local pid
  running || { echo "not running"; return; }
  pid=$(<"$run/pid")
  kill "$pid"
  # The children are gone before the launcher is.
  while running; do sleep 0.05; done
  rm -f "$run/pid"
  echo "stopped"
}

command=${1:-start}
shift || true
case $command in
  start) start "$@" ;;
  status) running && cat "$run/state/cluster.json" && echo ;;
  stop) stop ;;
  *) echo "usage: cluster.sh [start [LAUNCHER FLAG...] | status | stop]" >&2; exit 2 ;;
esac
