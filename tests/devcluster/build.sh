#!/usr/bin/env bash
# Builds the real control plane for tests into target/devcluster/bin.
#
#   build.sh [all]     control plane, launcher, helm, an OCI registry and Flux's source-controller
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

# go_build MODULE_DIR OUT LDFLAGS NAME=PACKAGE...
# All in one call: one binary is linked while the next is compiled. Without debug information, which would not be linked.
# Renamed into place: a running cluster keeps its old binaries.
go_build() {
  local module=$1 to=$2 ldflags=$3 start=$SECONDS binary
  shift 3
  say "building ${*%%=*}"
  rm -rf "$to/.new"
  mkdir -p "$to/.new"
  (cd "$module" &&
    go build -buildvcs=false -trimpath -gcflags all=-dwarf=false -ldflags "-s -w $ldflags" -o "$to/.new/" "${@#*=}") ||
    die "${*%%=*}: the build failed"
  for binary; do mv -f "$to/.new/$(go_name "${binary#*=}")" "$to/${binary%%=*}"; done
  rm -rf "$to/.new"
  say "built ${*%%=*} in $((SECONDS - start)) s"
}

# go_name PACKAGE: what go names the binary; the major version in the path is no name.
go_name() { basename "$(sed -E 's,/v[0-9]+$,,' <<<"$1")"; }

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

# kube NAME...: NAME=PACKAGE of these parts of Kubernetes.
kube() { printf '%s\n' "$@" | sed -E 's,(.*),\1=k8s.io/kubernetes/cmd/\1,'; }

build_control_plane() {
  local hash kwok
  hash=$(hash_of go.mod go.sum build.sh)
  fresh control-plane "$hash" "$bin/etcd" "${kube_servers[@]/#/$bin/}" "$bin/kubectl" "$bin/kwok" \
    "$bin/stages/kwok" && return
  need_go
  say "control plane: about five minutes on two cores the first time, seconds from a warm Go cache"
  # shellcheck disable=SC2046 # one word a line
  go_build "$here" "$bin" "$(kube_ldflags "$here")" etcd=go.etcd.io/etcd/server/v3 \
    $(kube "${kube_servers[@]}" kubectl) kwok=sigs.k8s.io/kwok/cmd/kwok
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
  go_build "$here" "$bin" "" devcluster=sherpack-operator/devcluster
  rm -rf "$bin/stages/own"
  mkdir -p "$bin/stages/own"
  install -m 644 "$here"/stages/*.yaml "$bin/stages/own"
  finished launcher "$hash"
}

# Two lines of it: they hold what they install in different ways. In the same module as the control plane, at whose
# versions most of them is compiled already; two calls, because go gives both the same name.
build_helm() {
  local hash major version
  hash=$(hash_of go.mod go.sum build.sh)
  fresh helm "$hash" "$bin/helm3" "$bin/helm" && return
  need_go
  for major in 3 4; do
    version=$(cd "$here" && go list -m -f '{{.Version}}' "helm.sh/helm/v$major")
    go_build "$here" "$bin" "-X helm.sh/helm/v$major/internal/version.version=$version" \
      "helm${major#4}=helm.sh/helm/v$major/cmd/helm"
  done
  finished helm "$hash"
}

# In a module of its own: what it is made of would move the versions that the control plane is pinned to.
build_registry() {
  local hash
  hash=$(cd "$here" && hash_of registry/*.go registry/go.mod registry/go.sum build.sh)
  fresh registry "$hash" "$bin/registry" && return
  need_go
  go_build "$here/registry" "$bin" "" registry=sherpack-operator/devcluster/registry
  finished registry "$hash"
}

# In a module of its own for the same reason. Its CustomResourceDefinitions are copied, so that a run needs no module cache.
build_flux() {
  local hash source
  hash=$(hash_of flux/go.mod flux/go.sum build.sh)
  fresh flux "$hash" "$bin/source-controller" "$out/flux-crds" && return
  need_go
  say "source-controller: about three minutes on two cores the first time, seconds from a warm Go cache"
  go_build "$here/flux" "$bin" "" source-controller=github.com/fluxcd/source-controller
  source=$(cd "$here/flux" && go list -m -f '{{.Dir}}' github.com/fluxcd/source-controller)
  rm -rf "$out/flux-crds"
  mkdir -p "$out/flux-crds"
  install -m 644 "$source"/config/crd/bases/*.yaml "$out/flux-crds"
  finished flux "$hash"
}

# Other server versions: only the three kube servers; the rest is shared.
build_other_versions() {
  local dir part hash
  for dir in "$here"/kube-*/; do
    [[ -d $dir ]] || continue
    dir=${dir%/}
    part=$(basename "$dir")
    hash=$(hash_of "$part/go.mod" "$part/go.sum" build.sh)
    fresh "$part" "$hash" "${kube_servers[@]/#/$out/$part/}" && continue
    need_go
    mkdir -p "$out/$part"
    # shellcheck disable=SC2046 # one word a line
    go_build "$dir" "$out/$part" "$(kube_ldflags "$dir")" $(kube "${kube_servers[@]}")
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
if [[ ${1:-all} == all ]]; then
  build_helm
  build_registry
  build_flux
fi
say "ready in $bin"
