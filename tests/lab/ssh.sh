#!/bin/sh
# ssh.sh - hosts with sshd on this machine, for tests: no root, no change to the machine.
#   ssh.sh start N DIR        N hosts; state in DIR (removed by the caller)
#   ssh.sh exec DIR CMD...    run CMD as the ordinary user `lab` on the login node
#   ssh.sh on DIR I CMD...    run CMD as root of host I (0: the login node)
#   ssh.sh stop DIR           end every process of the lab
#   ssh.sh slow DIR I RATE    a token bucket of RATE ("1mbit") on what goes to and comes
#                             from host I; "off" takes it away
# Status 3: it cannot be had here; the reason is on stderr.
#
# A host is a set of namespaces (network, UTS, mounts, processes, IPC) inside those of the
# login node: nothing is reachable from outside, everything dies with one process.
#   login   10.99.0.254, bridge lab0
#   nodeI   10.99.0.I (eth0), own host key, boot id, /tmp, /dev/shm and home; sshd as
#           `lab` on ports 22 and 2200
# Every host sees /mnt/lab (the home of lab), /mnt/shared (one folder for all),
# /mnt/muster (this repository) and /mnt/build (the build folder O).
# With BARE=1 a host has a root folder of its own instead: a shell, a few of coreutils, glibc
# and sshd, no muster and none of its libraries; /mnt/lab and /mnt/shared are as above.
# lab's home on the login node holds .ssh/id_ed25519 (let in by every host) and
# .ssh/known_hosts (every host by name and address, on both ports).
# As root, lab is user 2000; else it is the caller, seen as user 2000 inside.
set -eu

self=$(cd "$(dirname "$0")" && pwd)/${0##*/}
src=${self%/tests/lab/*}
O=${O:-$src/build}
uid=2000

absent() { echo "ssh lab: $*" >&2; exit 3; }

# --- sshd: the machine's, else Debian's package unpacked in the build folder (to install
# --- it would open port 22 of this machine)
find_sshd()
{
    [ ! -x /usr/sbin/sshd ] || { echo /usr/sbin/sshd; return; }
    at=$O/lab/sshd
    if [ ! -x "$at/usr/sbin/sshd" ]; then
        command -v apt-get >/dev/null || absent 'no sshd, and no apt-get to fetch it with'
        rm -rf "$at.tmp" && mkdir -p "$at.tmp"
        (cd "$at.tmp" && apt-get download -qq openssh-server libwrap0 >log 2>&1) ||
            absent "no sshd, and apt-get cannot fetch it: $(tail -1 "$at.tmp/log")"
        for deb in "$at.tmp"/*.deb; do dpkg-deb -x "$deb" "$at.tmp"; done
        rm -rf "$at" "$at.tmp/etc" "$at.tmp"/*.deb && mv "$at.tmp" "$at"
    fi
    echo "/mnt/build/lab/sshd/usr/sbin/sshd"
}

# The lines that sshd needs when it does not stand where it was made to stand.
sshd_parts()
{
    for part in session auth; do
        file=lab/sshd/usr/lib/openssh/sshd-$part
        [ ! -x "$O/$file" ] && continue
        case $part in session) key=SshdSessionPath ;; *) key=SshdAuthPath ;; esac
        echo "$key /mnt/build/$file"
    done
}

# --- files of the lab
write_keys()
{
    mkdir -p "$D/home/.ssh" "$D/shared" "$D/tmp"
    chmod 700 "$D/home/.ssh"
    ssh-keygen -q -t ed25519 -N '' -C lab -f "$D/home/.ssh/id_ed25519"
    printf '127.0.0.1 localhost\n10.99.0.254 login\n' >"$D/hosts"
    printf 'root:x:0:0:root:/root:/bin/sh\nlab:x:%s:%s:lab:/mnt/lab:/bin/sh\n' $uid $uid >"$D/passwd"
    printf 'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n' >>"$D/passwd"
    printf 'root:x:0:\nlab:x:%s:\nnogroup:x:65534:\n' $uid >"$D/group"
    sshd=$(find_sshd)
    [ -z "${BARE:-}" ] || make_bare
    i=0
    while [ $((i += 1)) -le "$N" ]; do write_host $i; done
    [ "$(id -u)" -ne 0 ] || chown -R $uid:$uid "$D"/home "$D"/shared "$D"/h[0-9]*
}

write_host()
{
    h=$D/h$1
    mkdir -p "$h/home/.ssh" "$h/tmp"
    chmod 700 "$h/home/.ssh"
    chmod 1777 "$h/tmp"
    ssh-keygen -q -t ed25519 -N '' -C "node$1" -f "$h/key"
    cp "$D/home/.ssh/id_ed25519.pub" "$h/home/.ssh/authorized_keys"
    cat /proc/sys/kernel/random/uuid >"$h/boot_id"
    echo "10.99.0.$1 node$1" >>"$D/hosts"
    key=$(cut -d' ' -f1,2 "$h/key.pub")
    echo "node$1,10.99.0.$1,[node$1]:2200,[10.99.0.$1]:2200 $key" >>"$D/home/.ssh/known_hosts"
    cat >"$h/sshd_config" <<C
Port 22
Port 2200
ListenAddress 0.0.0.0
HostKey /mnt/host/key
PidFile /mnt/host/sshd.pid
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 200:30:400
MaxSessions 64
UseDNS no
AcceptEnv *
Subsystem sftp internal-sftp
$(sshd_parts)
C
}

# --- inside the namespaces of a machine: what it sees
dress()
{ # dress FOLDER [BOOT_ID]
    mkdir -p "$D/mnt/lab" "$D/mnt/shared" "$D/mnt/host" "$D/mnt/muster" "$D/mnt/build" "$D/mnt/bare"
    mount --bind "$D/passwd" /etc/passwd
    mount --bind "$D/group" /etc/group
    mount --bind "$D/hosts" /etc/hosts
    mount --bind "$D/shared" "$D/mnt/shared"
    mount --bind "$src" "$D/mnt/muster"
    mount --bind "$O" "$D/mnt/build"
    mount --bind "$1/home" "$D/mnt/lab"
    mount --bind "$1" "$D/mnt/host"
    mount --rbind "$D/mnt" /mnt
    mount -t tmpfs -o mode=1777 shm /dev/shm
    [ -z "${2:-}" ] || mount --bind "$2" /proc/sys/kernel/random/boot_id
    ip link set lo up
}

as_lab()
{ # in the place of this shell
    if [ "$uid_outside" -eq 0 ]; then
        exec chroot --userspec=$uid:$uid --groups=$uid "$root" "$@"
    else
        exec unshare --user --map-user=$uid --map-group=$uid --root="$root" "$@"
    fi
}

# Process 1 of a machine: reaps, and outlives its sshd.
stay() { while :; do sleep 1000 & wait; done; }

run_host()
{ # process 1 of host I; its eth0 comes from the login node
    hostname "node$1"
    dress "$D/h$1" "$D/h$1/boot_id"
    root=/
    if [ -d "$D/bare" ]; then
        root=/mnt/bare
        dress_bare "$1"
    fi
    mount --bind "$D/h$1/tmp" /tmp
    cd /
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
    ip addr add "10.99.0.$1/24" dev eth0
    ip link set eth0 up
    echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
    LD_LIBRARY_PATH=/mnt/build/lab/sshd/usr/lib/$(uname -m)-linux-gnu \
        as_lab "$sshd" -D -f /mnt/host/sshd_config -E /mnt/host/sshd.log &
    stay
}

run_login()
{
    hostname login
    dress "$D"
    ip link add name lab0 type bridge
    ip addr add 10.99.0.254/24 dev lab0
    ip link set lab0 up
    i=0
    while [ $((i += 1)) -le "$N" ]; do
        unshare --net --uts --mount --ipc --pid --fork --kill-child --mount-proc \
            sh "$self" _host $i "$D" "$sshd" "$uid_outside" </dev/null >>"$D/log" 2>&1 &
        shim=$!
        until pid=$(pgrep -P $shim); do sleep 0.01; done
        # the namespaces are there once the child runs our shell
        until [ "$(readlink /proc/"$pid"/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
        echo "$pid" >"$D/h$i/pid"
        ip link add name v$i type veth peer name eth0 netns "$pid"
        ip link set v$i master lab0 up
    done
    stay
}

# --- bare hosts: what they have, from what this machine has
bare_programs='sh env cat uname head rm chmod mkdir echo ls df touch grep sed true false date stat
    wc sleep hostname id seq ln cp mv getent getconf'

bare_file()
{ # with the libraries it loads, each at its place
    for file in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        [ ! -e "$D/bare$file" ] || continue
        mkdir -p "$D/bare${file%/*}"
        cp -L "$file" "$D/bare$file"
    done
}

make_bare()
{
    b=$D/bare
    mkdir -p "$b/usr" "$b/proc" "$b/sys" "$b/dev" "$b/tmp" "$b/etc" "$b/run/sshd" \
        "$b/mnt/build/lab" "$b/mnt/lab" "$b/mnt/shared" "$b/mnt/host"
    touch "$b/etc/passwd" "$b/etc/group" "$b/etc/hosts"
    for dir in bin sbin lib lib64; do
        mkdir -p "$b/usr/$dir"
        if [ -L /$dir ]; then ln -s usr/$dir "$b/$dir"; else mkdir -p "$b/$dir"; fi
    done
    for p in $bare_programs; do
        bare_file "$(command -v "$(type "$p" | grep -q builtin && echo "/usr/bin/$p" || echo "$p")")"
    done
    case $sshd in
    /mnt/build/*) LD_LIBRARY_PATH=$O/lab/sshd/usr/lib/$(uname -m)-linux-gnu bare_file "$O${sshd#/mnt/build}"
        rm -rf "$b$O" ;;
    *) bare_file "$sshd"
        for part in session auth; do
            [ ! -x /usr/lib/openssh/sshd-$part ] || bare_file /usr/lib/openssh/sshd-$part
        done ;;
    esac
    c=$(ldd /usr/bin/env | grep -o '/[^ ]*libc\.so\.[0-9]*')
    for l in m resolv dl pthread rt util anl nss_files; do
        for file in "${c%/*}/lib$l.so."[0-9]*; do [ ! -e "$file" ] || bare_file "$file"; done
    done
    echo 'passwd: files' >"$b/etc/nsswitch.conf"
    printf 'group: files\nhosts: files\n' >>"$b/etc/nsswitch.conf"
}

# in the namespaces of a host
dress_bare()
{ # dress_bare I
    mount --bind "$D/bare" /mnt/bare
    for dir in proc sys dev; do mount --rbind /$dir "/mnt/bare/$dir"; done
    for file in passwd group hosts; do mount --bind "$D/$file" "/mnt/bare/etc/$file"; done
    mount --bind "$D/h$1/tmp" /mnt/bare/tmp
    mount --bind "$D/h$1/home" /mnt/bare/mnt/lab
    mount --bind "$D/shared" /mnt/bare/mnt/shared
    mount --bind "$D/h$1" /mnt/bare/mnt/host
    [ ! -d "$O/lab" ] || mount --bind "$O/lab" /mnt/bare/mnt/build/lab
}

# --- from outside
start()
{
    for p in ip unshare nsenter setpriv ssh-keygen pgrep; do
        command -v $p >/dev/null || absent "$p is not installed (iproute2, util-linux, openssh-client, procps)"
    done
    user=
    [ "$(id -u)" -eq 0 ] || user='--user --map-root-user'
    # shellcheck disable=SC2086 # words
    why=$(unshare $user --net --mount --pid --uts --fork --mount-proc \
        sh -c 'ip link add name lab0 type bridge && ip link add name v1 type veth peer name eth0' 2>&1) ||
        absent "namespaces are not allowed here: $why"
    mkdir -p "$D"
    D=$(cd "$D" && pwd)
    write_keys
    # shellcheck disable=SC2086
    unshare $user --net --mount --pid --uts --ipc --fork --kill-child --mount-proc \
        sh "$self" _login "$N" "$D" "$sshd" "$(id -u)" </dev/null >>"$D/log" 2>&1 3>&- &
    echo $! >"$D/shim"
    i=0 tries=0
    while [ $((i += 1)) -le "$N" ]; do
        until [ -s "$D/h$i/sshd.pid" ]; do
            [ $((tries += 1)) -lt 1500 ] || { stop; echo "ssh lab: node$i did not start: $(tail -3 "$D/log" "$D/h$i/sshd.log")" >&2; exit 4; }
            sleep 0.02
        done
    done
    pgrep -P "$(cat "$D/shim")" >"$D/pid"
}

# The shim waits for process 1 of the login node, which dies with it (--kill-child), and so
# does all the rest.  `unshare` takes no other signal.
stop()
{
    shim=$(cat "$D/shim")
    init=$(pgrep -P "$shim") || return 0
    kill -KILL "$shim"
    while [ -e "/proc/$init" ]; do sleep 0.02; done
}

enter()
{ # enter CMD...: as root of the login node
    if [ "$(id -u)" -eq 0 ]; then
        nsenter -t "$(cat "$D/pid")" -n -m -p -u -i "$@"
    else
        nsenter -t "$(cat "$D/pid")" --user --preserve-credentials -n -m -p -u -i "$@"
    fi
}

lab_exec()
{
    uid_outside=$(id -u)
    if [ "$uid_outside" -eq 0 ]; then
        set -- setpriv --reuid $uid --regid $uid --clear-groups "$@"
    else
        set -- unshare --user --map-user=$uid --map-group=$uid "$@"
    fi
    # shellcheck disable=SC2016 # for the inner shell
    enter sh -c 'cd /mnt/lab && export HOME=/mnt/lab USER=lab LOGNAME=lab O=/mnt/build \
        PATH="/mnt/build/bin:/mnt/build/tests/cli/helpers:$PATH" && exec "$@"' sh "$@"
}

on_host()
{
    i=$1
    shift
    if [ "$i" -eq 0 ]; then
        enter "$@"
    else
        enter nsenter -t "$(cat "$D/h$i/pid")" -n -m -p -u -i "$@"
    fi
}

# Both ways: what the bridge sends to the host, and what the host sends.
slow()
{
    for where in "0 v$1" "$1 eth0"; do
        # shellcheck disable=SC2086 # a host and an interface
        set -- $where "$1" "$2"
        if [ "$4" = off ]; then
            on_host "$1" tc qdisc del dev "$2" root
        else
            on_host "$1" tc qdisc add dev "$2" root tbf rate "$4" burst 16kb latency 400ms
        fi
        shift 2
    done
}

verb=${1:-}
[ $# -gt 0 ] && shift
case $verb in
start) N=$1 D=$2 && start ;;
stop) D=$1 && stop ;;
exec) D=$1 && shift && lab_exec "$@" ;;
on) D=$1 && shift && on_host "$@" ;;
slow) D=$1 && slow "$2" "$3" ;;
_login) N=$1 D=$2 sshd=$3 uid_outside=$4 && run_login ;;
_host) D=$2 sshd=$3 uid_outside=$4 && run_host "$1" ;;
*) echo 'usage: ssh.sh start N DIR | exec DIR CMD... | on DIR I CMD... | slow DIR I RATE | stop DIR' >&2 && exit 2 ;;
esac
