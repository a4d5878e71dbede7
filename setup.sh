#!/usr/bin/env bash
# Installs the Debian packages that are missing and builds Kerf in build/PRESET.
#
#   ./setup.sh                    what the kerf command needs; Release
#   ./setup.sh --tests [PRESET [TARGET]]
#                                 also what the tests need, and the tests and benchmarks themselves, or one
#                                 target of them; PRESET is release (default), dev, asan, tsan or fuzz
#
# Needs no input, and changes nothing that is already there.
set -euo pipefail
cd "$(dirname "$0")"

packages=(g++ cmake ninja-build pkg-config ccache python3 libzmq3-dev cppzmq-dev libsodium-dev libcereal-dev libdnnl-dev
  ocl-icd-opencl-dev libboost-dev libboost-graph-dev nlohmann-json3-dev libcli11-dev libfmt-dev
  zlib1g-dev libonnx-dev libprotobuf-dev libpng-dev libjpeg62-turbo-dev
  libgtest-dev libgmock-dev libbenchmark-dev dataset-fashion-mnist)
preset=release
target=(--target kerf)
case "${1:-}" in
  "") ;;
  --tests)
    packages+=(python3-numpy python3-torch libopenblas0-pthread python3-onnx libonnx-testdata
      clang-format clang-tidy git util-linux iproute2 strace openssh-client openssh-server slurmctld slurmd slurm-client munge)
    preset=${2:-release}
    target=(${3:+--target "$3"})  # or what the preset says
    if [[ $preset == fuzz ]]; then
      packages+=(clang libclang-rt-14-dev libomp-dev)
    fi
    ;;
  *)
    echo "setup.sh: error: unknown argument '$1' (there is only --tests)" >&2
    exit 2
    ;;
esac

# Runs a command; shows what it printed only if it failed.
quietly() {
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "setup.sh: error: '$*' failed" >&2
    rm -f "$log"
    exit 1
  fi
  rm -f "$log"
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "setup.sh: this is not Debian; on Debian 12 I would look for: ${packages[*]}" >&2
    return
  fi
  local missing=() package installed
  installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "${packages[@]}" 2>/dev/null || true) "
  for package in "${packages[@]}"; do
    [[ $installed == *" installed:$package "* ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local root=()
  if (($(id -u) != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "setup.sh: error: packages are missing and there is no sudo; as root, run" >&2
      echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
      exit 1
    fi
    root=(sudo)
    [[ -t 0 ]] || root+=(-n)
    "${root[@]}" true || {
      echo "setup.sh: error: sudo refused; as root, run" >&2
      echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
      exit 1
    }
  fi
  echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  quietly "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update
  quietly "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "${missing[@]}"
}

build() {
  local folder=build/$preset command=(cmake --build --preset "$preset" "${target[@]}")
  if [[ ! -f $folder/build.ninja ]]; then
    echo "Configuring $folder"
    quietly cmake --preset "$preset"
  fi
  # A dry run tells whether there is anything to say.
  if [[ $("${command[@]}" -- -n 2>&1) == *"no work to do"* ]]; then
    return
  fi
  echo "Building $folder"
  if [[ -t 1 ]]; then
    "${command[@]}" </dev/null
  else
    # Where nobody watches: a sign of life now and then, and everything if it fails.
    local log=$folder/build.log
    "${command[@]}" 2>&1 </dev/null | tee "$log" |
      awk -F'[][/]' '/^\[[0-9]+\/[0-9]+\]/ && $2 > 0 && $2 % 25 == 0 { print "  " $2 " of " $3; fflush() }' || {
      grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking)' "$log" >&2
      echo "setup.sh: error: the $preset build failed" >&2
      exit 1
    }
  fi
}

install_packages
build
