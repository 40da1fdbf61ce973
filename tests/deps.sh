#!/bin/sh
# deps.sh - install what muster needs to build and to test, through apt.
# Says what it does; does nothing (and needs no network) when all is there.
set -eu

packages='gcc make pkg-config libc6-dev libyaml-dev libjansson-dev libsqlite3-dev
libpmix-dev libopenmpi-dev openmpi-bin libopenblas-dev libcmocka-dev bats procps
libssh-dev libssl-dev openssh-client iproute2'

missing=
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -z "$missing" ]; then
    echo 'deps: everything is installed'
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "deps: no apt-get here; install by hand:$missing" >&2
    exit 3
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "deps: not root and no sudo; as root run: apt-get install$missing" >&2; exit 3; }
    as_root=sudo
fi
echo "deps: installing$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo 'deps: done'
