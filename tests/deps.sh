#!/bin/sh
# deps.sh [test] - install what muster needs to build and, with `test', what its tests
# need too, through apt.
# Says what it does; does nothing (and needs no network) when all is there.
#
# The tests' Slurm comes with services, which a machine that runs systemd would start, now
# and at every boot: there it is left to its owner, and those tests say that they skip.
set -eu
cd "$(dirname "$0")/.."

packages='gcc make pkg-config libc6-dev libyaml-dev libjansson-dev libsqlite3-dev
libpmix-dev libopenmpi-dev openmpi-bin libopenblas-dev libcmocka-dev bats procps
libssh-dev libssl-dev libslurm-dev libibnetdisc-dev libibmad-dev openssh-client iproute2'
slurm=$(sed -n "s/^packages='\(.*\)'$/\1/p" tests/lab/slurm.sh)

# missing PACKAGE... - those that are not installed
missing()
{
    for p; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf ' %s' "$p"
    done
}

# install PACKAGE...
install()
{
    if ! command -v apt-get >/dev/null; then
        echo "deps: no apt-get here; install by hand: $*" >&2
        return 3
    fi
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            { echo "deps: not root and no sudo; as root run: apt-get install $*" >&2; return 3; }
        as_root=sudo
    fi
    echo "deps: installing $*"
    $as_root apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Slurm for the tests, where it starts nothing; without it the rest can still be tested.
slurm()
{
    # shellcheck disable=SC2046,SC2086 # lists of words
    set -- $(missing $slurm)
    [ $# -gt 0 ] || return 0
    if [ -d /run/systemd/system ] || [ "$(id -u)" -ne 0 ]; then
        echo "deps: the tests on Slurm will skip; to have them, as root: apt-get install $* (starts services)"
    else
        install "$@" || echo "deps: no Slurm to be had here, its tests will skip"
    fi
}

# An InfiniBand fabric that libibnetdisc can walk without an adapter; its test skips without.
simulator()
{
    # shellcheck disable=SC2046 # a list of words
    set -- $(missing ibsim-utils libumad2sim0)
    [ $# -eq 0 ] || install "$@" || echo 'deps: no ibsim to be had here, its test will skip'
}

# shellcheck disable=SC2046,SC2086 # lists of words
set -- "${1:-}" $(missing $packages)
what=$1
shift
if [ $# -gt 0 ]; then
    install "$@"
    echo 'deps: done'
else
    echo 'deps: everything is installed'
fi
[ "$what" != test ] || slurm
[ "$what" != test ] || simulator
