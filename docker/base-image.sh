#!/usr/bin/env bash
# Makes a base image from Debian packages, for machines that reach no image registry.
#
#   docker/base-image.sh [--force]
#
# debootstrap builds a minimal Debian with Python, from the mirrors that this machine's own apt uses. The image is
# tagged microcoder-base:bookworm; nothing happens when it is there. Needs root, debootstrap and a Docker daemon.
# Where a registry answers, none of this is needed: the Dockerfile's own default base is better (newer Python).
set -euo pipefail

suite=${MICROCODER_BASE_SUITE:-bookworm}
tag=${MICROCODER_BASE_TAG:-microcoder-base:$suite}
packages=python3,python3-venv,ca-certificates

say() { printf 'base-image: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

# One "site release component" line for each Debian package list that apt is set up to read here, of this suite.
apt_sources() {
    # shellcheck disable=SC2016  # apt fills these in, not the shell
    apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        awk -v suite="$suite" '$2 == suite || $2 == suite "-updates" || $2 == suite "-security"' | sort -u
}

# The image may install more packages later: give it the same sources, and the same leniency about dates.
write_apt_setup() {
    local root=$1 sources=$2
    if [[ -n $sources ]]; then
        awk '{ lists[$1 " " $2] = lists[$1 " " $2] " " $3 } END { for (at in lists) print "deb " at lists[at] }' \
            <<<"$sources" >"$root/etc/apt/sources.list"
    fi
    apt-config dump | grep -E '^Acquire::Check-(Valid-Until|Date) ' >"$root/etc/apt/apt.conf.d/90base-image" || true
    printf '%s\n' 'APT::Install-Recommends "false";' 'Acquire::Languages "none";' >>"$root/etc/apt/apt.conf.d/90base-image"
}

# What a base of containers never reads.
trim() {
    local root=$1
    chroot "$root" apt-get clean
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/debconf/*-old "$root"/var/log/{bootstrap.log,dpkg.log,apt}
    find "$root/usr/share/doc" -mindepth 1 -not -name copyright -type f -delete
    rm -rf "$root"/usr/share/{man,info,locale,groff,lintian}/*
    : >"$root/etc/resolv.conf"
    rm -f "$root/etc/hostname"
}

main() {
    if [[ ${1:-} != --force ]] && docker image inspect "$tag" >/dev/null 2>&1; then
        say "$tag is there already"
        return
    fi
    ((EUID == 0)) || fail "debootstrap needs root: run this with sudo"
    command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

    local sources mirror work
    sources=$(apt_sources || true)
    mirror=$(awk -v suite="$suite" '$2 == suite { print $1; exit }' <<<"$sources")
    work=$(mktemp -d)
    # shellcheck disable=SC2064  # the directory as it is named now
    trap "rm -rf --one-file-system '$work'" EXIT
    say "debootstrap $suite into $work"
    # shellcheck disable=SC2086  # no mirror: debootstrap takes its own
    debootstrap --variant=minbase --include="$packages" "$suite" "$work/root" $mirror >"$work/log" 2>&1 ||
        { tail -n 30 "$work/log" >&2; fail "debootstrap failed: its last lines are above"; }
    write_apt_setup "$work/root" "$sources"
    trim "$work/root"
    tar --numeric-owner -C "$work/root" -c . |
        docker import --change 'ENV LANG=C.UTF-8' --change 'CMD ["python3"]' - "$tag" >/dev/null
    say "$tag made: $(docker image inspect --format '{{.Size}}' "$tag" | awk '{ printf "%.0f MB", $1 / 1e6 }')"
}

main "$@"
