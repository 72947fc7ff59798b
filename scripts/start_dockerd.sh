#!/usr/bin/env bash
# Starts a Docker daemon by hand where none answers: a virtual machine without systemd, a CI job. Needs root.
#
#   scripts/start_dockerd.sh
#
# Prints the daemon's process id, or "already running". Its log and its pid lie in a directory of the system's temporary
# one. Debian's packages: docker.io iptables (and debootstrap, for a base image without a registry).
# To stop it: kill the printed pid.
set -euo pipefail

folder=${TMPDIR:-/tmp}/microcoder-dockerd
seconds=${MICROCODER_DOCKERD_SECONDS:-60}

say() { printf 'start_dockerd: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

# The socket itself is asked: two docker commands on the PATH may speak different versions of the protocol.
answers() {
    docker version --format '{{.Server.Version}}' >/dev/null 2>&1
}

# What keeps a daemon from starting on a bare machine.
prepare() {
    ((EUID == 0)) || fail "starting dockerd needs root: run this with sudo, or start your own daemon"
    command -v dockerd >/dev/null || fail "dockerd is missing: apt-get install docker.io"
    if ! grep -qs cgroup /proc/mounts; then
        mount -t cgroup2 none /sys/fs/cgroup || fail "no cgroups are mounted, and mounting them was refused"
    fi
    # A pid file that outlived its daemon makes the next one refuse to start.
    local pid_file=/var/run/docker.pid
    if [[ -f $pid_file ]] && ! kill -0 "$(<"$pid_file")" 2>/dev/null; then
        rm -f "$pid_file"
    fi
}

# Without iptables the daemon can still make boxes (they have no network), but no build reaches a package server.
choose_flags() {
    if ! command -v iptables >/dev/null || ! iptables -t nat -L -n >/dev/null 2>&1; then
        say "iptables does not work here: containers will have no way out"
        echo --iptables=false
    fi
}

main() {
    if answers; then
        echo "already running"
        return
    fi
    prepare
    mkdir -p "$folder"
    local flags pid deadline
    mapfile -t flags < <(choose_flags)
    setsid dockerd "${flags[@]}" >"$folder/dockerd.log" 2>&1 </dev/null &
    pid=$!
    echo "$pid" >"$folder/dockerd.pid"
    deadline=$((SECONDS + seconds))
    until answers; do
        if ! kill -0 "$pid" 2>/dev/null || ((SECONDS > deadline)); then
            tail -n 15 "$folder/dockerd.log" >&2
            kill "$pid" 2>/dev/null || true
            fail "dockerd does not answer: the end of $folder/dockerd.log is above"
        fi
        sleep 0.3
    done
    say "dockerd $(docker version --format '{{.Server.Version}}') answers; its log is $folder/dockerd.log"
    echo "$pid"
}

main "$@"
