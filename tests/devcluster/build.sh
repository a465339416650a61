#!/usr/bin/env bash
# Builds the real control plane for tests into target/devcluster/bin.
#
#   build.sh [all]     control plane, launcher and helm
#   build.sh cluster   control plane and launcher
#
# Quick when nothing changed: each part has a stamp, the hash of what it is made of.
# Another server version is a module kube-X.Y/ beside this file (see README.md); its
# binaries land in target/devcluster/kube-X.Y.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(cd "$here/../.." && pwd)/target/devcluster
bin=$out/bin

# The modules are pinned by go.mod and go.sum alone: no workspace, no flags from outside.
export CGO_ENABLED=0 GOWORK=off GOFLAGS=

say() { echo "devcluster: $*" >&2; }
die() { say "error: $*"; exit 1; }

# hash_of FILE...: one hash over names and contents.
hash_of() { (cd "$here" && sha256sum -- "$@" | sha256sum | cut -d' ' -f1); }

# fresh PART HASH FILE...: the part was built from HASH and nothing of it is missing.
fresh() {
  local stamp=$out/stamp/$1 hash=$2 file
  shift 2
  [[ -f $stamp && $(<"$stamp") == "$hash" ]] || return 1
  for file; do [[ -e $file ]] || return 1; done
}

# finished PART HASH
finished() { mkdir -p "$out/stamp"; echo "$2" >"$out/stamp/$1"; }

need_go() {
  command -v go >/dev/null || die "go is not on the PATH; it builds the control plane that tests, demo and scale runs use"
}

# go_build MODULE_DIR PACKAGE FILE [LDFLAGS]
# Renamed into place: a running cluster keeps its old binary.
go_build() {
  local start=$SECONDS
  say "building $(basename "$3")"
  (cd "$1" && go build -buildvcs=false -trimpath -ldflags "-s -w ${4:-}" -o "$3.new" "$2") ||
    die "$(basename "$3") did not build"
  mv -f "$3.new" "$3"
  say "built $(basename "$3") in $((SECONDS - start)) s"
}

# kube_ldflags MODULE_DIR: without a version kubectl cannot parse the server's answer.
kube_ldflags() {
  local version major minor rest package
  version=$(cd "$1" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
  IFS=. read -r major minor rest <<<"${version#v}"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s ' \
      "$package" "$version" "$package" "$major" "$package" "$minor"
  done
}

kube_servers=(kube-apiserver kube-controller-manager kube-scheduler)

build_control_plane() {
  local hash name ldflags kwok
  hash=$(hash_of go.mod go.sum build.sh)
  fresh control-plane "$hash" "$bin/etcd" "${kube_servers[@]/#/$bin/}" "$bin/kubectl" "$bin/kwok" \
    "$bin/stages/kwok" && return
  need_go
  say "control plane: about five minutes on two cores the first time, seconds from a warm Go cache"
  go_build "$here" go.etcd.io/etcd/server/v3 "$bin/etcd"
  ldflags=$(kube_ldflags "$here")
  for name in "${kube_servers[@]}" kubectl; do
    go_build "$here" "k8s.io/kubernetes/cmd/$name" "$bin/$name" "$ldflags"
  done
  go_build "$here" sigs.k8s.io/kwok/cmd/kwok "$bin/kwok"
  kwok=$(cd "$here" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
  copy_kwok_stages "$kwok/kustomize/stage"
  finished control-plane "$hash"
}

# copy_kwok_stages SOURCE: copied, so that a run needs no module cache.
# Among several matching stages kwok draws lots, so its own must step aside for ours.
copy_kwok_stages() {
  local to=$bin/stages/kwok
  rm -rf "$to"
  mkdir -p "$to"
  install -m 644 "$1"/node/fast/node-*.yaml "$1"/node/heartbeat-with-lease/node-*.yaml \
    "$1"/pod/fast/pod-*.yaml "$to"
  step_aside "$to/pod-ready.yaml" unready image-pull-backoff loopback
  step_aside "$to/pod-complete.yaml" unready fail
}

# step_aside FILE ANNOTATION...: the stage no longer matches pods with devcluster/ANNOTATION.
step_aside() {
  local file=$1 annotation lines=
  shift
  grep -q '^    matchExpressions:$' "$file" || die "$(basename "$file") of kwok has a new shape; see step_aside in build.sh"
  for annotation; do
    lines+="    - key: '.metadata.annotations[\"devcluster/$annotation\"]'"$'\n'
    lines+="      operator: 'NotIn'"$'\n'"      values: ['true']"$'\n'
  done
  awk -v lines="${lines//\\/\\\\}" '{ print } /^    matchExpressions:$/ { printf "%s", lines }' "$file" >"$file.new"
  mv "$file.new" "$file"
}

build_launcher() {
  local hash
  hash=$(cd "$here" && hash_of ./*.go stages/*.yaml build.sh)
  fresh launcher "$hash" "$bin/devcluster" "$bin/stages/own" && return
  need_go
  go_build "$here" . "$bin/devcluster"
  rm -rf "$bin/stages/own"
  mkdir -p "$bin/stages/own"
  install -m 644 "$here"/stages/*.yaml "$bin/stages/own"
  finished launcher "$hash"
}

# Two lines of it: they hold what they install in different ways.
build_helm() {
  build_helm_line helm 4
  build_helm_line helm3 3
}

# build_helm_line NAME LINE
build_helm_line() {
  local name=$1 module=helm.sh/helm/v$2 hash version
  hash=$(hash_of "$name/go.mod" "$name/go.sum" build.sh)
  fresh "$name" "$hash" "$bin/$name" && return
  need_go
  version=$(cd "$here/$name" && go list -m -f '{{.Version}}' "$module")
  go_build "$here/$name" "$module/cmd/helm" "$bin/$name" "-X $module/internal/version.version=$version"
  finished "$name" "$hash"
}

# Other server versions: only the three kube servers; the rest is shared.
build_other_versions() {
  local dir part hash name ldflags
  for dir in "$here"/kube-*/; do
    [[ -d $dir ]] || continue
    dir=${dir%/}
    part=$(basename "$dir")
    hash=$(hash_of "$part/go.mod" "$part/go.sum" build.sh)
    fresh "$part" "$hash" "${kube_servers[@]/#/$out/$part/}" && continue
    need_go
    mkdir -p "$out/$part"
    ldflags=$(kube_ldflags "$dir")
    for name in "${kube_servers[@]}"; do
      go_build "$dir" "k8s.io/kubernetes/cmd/$name" "$out/$part/$name" "$ldflags"
    done
    finished "$part" "$hash"
  done
}

case ${1:-all} in
  all | cluster) ;;
  *) die "usage: build.sh [all|cluster]" ;;
esac

mkdir -p "$bin"
exec 9>"$out/build.lock"
flock -n 9 || { say "another build is running; waiting for it"; flock 9; }

build_control_plane
build_launcher
build_other_versions
[[ ${1:-all} == cluster ]] || build_helm
say "ready in $bin"
