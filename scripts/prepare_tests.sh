#!/usr/bin/env bash
# What the whole test run needs beside Python packages. Installs nothing on a person's machine: only with CI=true, as
# root, on Debian. Elsewhere the tests that miss something say so and are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ ${CI:-} == true ]] || exit 0
if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
    echo "prepare_tests: CI=true, but this is not root on Debian: install Docker and Redis by other means" >&2
    exit 1
fi
missing=()
for pair in dockerd:docker.io iptables:iptables debootstrap:debootstrap redis-server:redis-server setpriv:util-linux \
    sudo:sudo git:git g++:g++ chromium:chromium prometheus:prometheus; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
# The tests that play an ordinary user need an interpreter that such a user can read.
/usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3 python3-venv)
if ((${#missing[@]})); then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
fi
# The bundled trainer's tests. Pinned, since of this release a machine may hold a wheel for CPUs (2.13.0+cpu, which pip
# prefers where it finds one): 200 MB in the place of some GB with CUDA.
.venv/bin/pip install --quiet torch==2.13.0 --editable '.[trainer]'
scripts/start_dockerd.sh
WITH_COMPILER=1 scripts/build_images.sh  # C++ checkers are tested in Docker too
