#!/usr/bin/env bash
# Builds the images: microcoder-box:latest, microcoder-service:latest and, with no registry, microcoder-redis:latest.
#
#   scripts/build_images.sh [box] [service] [redis]     (default: box and service, and redis where it can't be pulled)
#
# BASE=image:tag              the image to build on. Default: python:3.12-slim where it is here or can be pulled at once,
#                             else a Debian base made by docker/base-image.sh (root, debootstrap).
# MICROCODER_BOX_TAG, MICROCODER_SERVICE_TAG, MICROCODER_REDIS_TAG     other names for the images.
# A build that fails is tried once more on this machine's own network (--network host). Wheels in docker/wheelhouse/ are
# installed instead of anything from an index. This machine's pip settings and certificate bundle are lent to the build; they
# reach no image and no commit.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'build_images: %s\n' "$*" >&2; }

# A second docker command earlier on the PATH may lack a builder plugin: take the classic builder then.
build_command() {
    if docker buildx version >/dev/null 2>&1; then
        echo 1
    else
        echo 0
    fi
}

choose_base() {
    local wanted=python:3.12-slim
    if [[ -n ${BASE:-} ]]; then
        echo "$BASE"
    elif docker image inspect "$wanted" >/dev/null 2>&1 || timeout 120 docker pull --quiet "$wanted" >/dev/null 2>&1; then
        echo "$wanted"
    else
        say "$wanted can't be pulled here: building on Debian's packages"
        docker/base-image.sh
        echo "${MICROCODER_BASE_TAG:-microcoder-base:${MICROCODER_BASE_SUITE:-bookworm}}"
    fi
}

host_python() {
    if [[ -x .venv/bin/python ]]; then echo .venv/bin/python; else command -v python3; fi
}

# One of pip's settings on this machine, from the environment or its files; empty where it isn't set.
pip_setting() {
    "$(host_python)" -m pip config list 2>/dev/null |
        sed -n "s/^\(global\|install\|:env:\)\.$1='\(.*\)'$/\2/p" | tail -n 1
}

# Certificates: a network that rewrites TLS is trusted by this machine's bundle, not by an image's.
lend_certificates() {
    local bundle
    bundle=${PIP_CERT:-$(pip_setting cert)}
    if [[ -n $bundle && -f $bundle ]]; then
        cp "$bundle" docker/ca/local.crt
    fi
}

# Addresses that exist on this machine alone (file:, loopback) mean nothing in a build.
pip_arguments() {
    local setting value
    for setting in index-url extra-index-url trusted-host; do
        value=$(pip_setting "$setting")
        if [[ -n $value && $value != *file:* && $value != *127.0.0.1* && $value != *localhost* ]]; then
            printf -- '--build-arg\nPIP_%s=%s\n' "$(tr 'a-z-' 'A-Z_' <<<"$setting")" "$value"
        fi
    done
}

# A Redis image is of use only where compose can't pull one.
default_targets() {
    echo box
    echo service
    if ! docker image inspect redis:7-alpine >/dev/null 2>&1 && ! timeout 60 docker pull --quiet redis:7-alpine >/dev/null 2>&1; then
        echo redis
    fi
}

build() {
    local target=$1 base=$2 network=$3 tag log
    case $target in
    box) tag=${MICROCODER_BOX_TAG:-microcoder-box:latest} ;;
    service) tag=${MICROCODER_SERVICE_TAG:-microcoder-service:latest} ;;
    redis) tag=${MICROCODER_REDIS_TAG:-microcoder-redis:latest} ;;
    esac
    local arguments=()
    mapfile -t arguments < <(pip_arguments)
    log=$(mktemp)
    say "building $tag on $base, network $network"
    if ! DOCKER_BUILDKIT=$(build_command) docker build --target "$target" --tag "$tag" --file docker/Dockerfile --network "$network" \
        --build-arg "BASE=$base" --build-arg "WITH_COMPILER=${WITH_COMPILER:-0}" "${arguments[@]}" . >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
    say "$tag: $(docker image inspect --format '{{.Size}}' "$tag" | awk '{ printf "%.0f MB", $1 / 1e6 }')"
}

main() {
    local base targets=("$@") target
    docker info >/dev/null 2>&1 || {
        say "no Docker daemon answers: start one (scripts/start_dockerd.sh)"
        exit 1
    }
    ((${#targets[@]})) || mapfile -t targets < <(default_targets)
    base=$(choose_base)
    lend_certificates
    trap 'rm -f docker/ca/local.crt' EXIT
    for target in "${targets[@]}"; do
        case $target in box | service | redis) ;; *)
            say "unknown image '$target': box, service or redis"
            exit 2
            ;;
        esac
        build "$target" "$base" default || {
            say "the build of $target failed; trying once more on this machine's own network"
            build "$target" "$base" host
        }
    done
}

main "$@"
