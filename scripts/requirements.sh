# shellcheck shell=sh
# Sourced by `make test`: where CI is meant to have everything, a skipped part is a failure.
if [ "${CI:-}" = true ]; then
    export MICROCODER_REQUIRE="docker,compose,redis,bubblewrap,user,compiler,browser,prometheus,torch,trl"
fi
