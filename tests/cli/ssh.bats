#!/usr/bin/env bats
# The SSH client against real sshds: hosts as namespaces of this machine (tests/lab/ssh.sh).
load lib
export O

LAB="$SRC/tests/lab/ssh.sh"

setup_file()
{
    export D=$BATS_FILE_TMPDIR/lab NO_LAB=
    if ssh_try exec 127.0.0.1 true 2>&1 | grep -q 'built without libssh'; then
        NO_LAB='built without libssh'
    elif ! sh "$LAB" start 3 "$D" 2>"$BATS_FILE_TMPDIR/why"; then
        NO_LAB=$(tail -1 "$BATS_FILE_TMPDIR/why")
        [ -n "$NO_LAB" ] || NO_LAB='the lab does not start'
    fi
    export NO_LAB
}

teardown_file() { [ -n "$NO_LAB" ] || sh "$LAB" stop "$D"; }

setup()
{
    T=$(mktemp -d)
    cd "$T" || exit 1
    [ -z "$NO_LAB" ] || skip "$NO_LAB"
    sh "$LAB" on "$D" 0 sh -c 'rm -rf /mnt/lab/.ssh/config /mnt/lab/.ssh/known_hosts2; cp /mnt/host/known.good /mnt/lab/.ssh/known_hosts 2>/dev/null || cp /mnt/lab/.ssh/known_hosts /mnt/host/known.good; chown 2000 /mnt/lab/.ssh/known_hosts 2>/dev/null || true'
}

lab() { sh "$LAB" exec "$D" timeout 60 "$@"; }
try() { lab ssh_try "$@"; }
node() { sh "$LAB" on "$D" "$@"; }

# known WORDS...: rewrite the login node's known_hosts with sed
known() { lab sed -i "$@" /mnt/lab/.ssh/known_hosts; }

@test "a program runs there: its output, its errors, its status" {
    run try exec node1 hostname
    status 0
    [ "$output" = node1 ]
    run try exec node2 sh -c 'echo out; echo err >&2; exit 7'
    status 7
    has out
    has err
    try exec node2 sh -c 'echo out; echo err >&2' >o 2>e
    [ "$(cat o) $(cat e)" = 'out err' ]
}

@test "a signal is told apart from a status" {
    run try exec node1 sh -c 'kill -SEGV $$'
    status 139
    has 'signal SEGV'
    run try exec node1 sh -c 'exit 139'
    status 139
    lacks signal
}

@test "a signal can be sent" {
    run try -k 15 exec node1 sh -c 'trap "echo got TERM; exit 3" TERM; echo ready; while :; do sleep 0.1; done'
    status 3
    has 'got TERM'
}

@test "C17: the remote argv is ours, byte for byte" {
    cat >args <<'X'
import sys, os
sys.stdout.buffer.write(b"\0".join(os.fsencode(a) for a in sys.argv[1:]))
X
    cp args "$D/shared/args.py"
    words=('/données/mö tor/train' $'--out=a b\'c"d$HOME' '*' '' '-x' $'two\nlines' '`id`' '~' 'A=b' '!x' '\' $'\xff\x01')
    try exec node1 python3 /mnt/shared/args.py "${words[@]}" >got
    printf '%s\0' "${words[@]}" | head -c -1 >want
    cmp got want
}

@test "output comes as it is written, not at the end" {
    try exec node1 sh -c 'echo first; sleep 3; echo second' >out &
    for _ in $(seq 100); do grep -q first out && break; sleep 0.1; done
    grep -q first out
    ! grep -q second out
    wait $!
    grep -q second out
}

@test "50 MB there and back are the same bytes" {
    head -c 50000000 /dev/urandom >in
    try -i exec node1 cat <in >out
    cmp in out
    run try -i exec node1 sha256sum <in
    status 0
    has "$(sha256sum <in)"
}

@test "C12: every host is visited; none eats the list" {
    printf 'node1\nnode2\nnode3\n' >list
    while read -r host; do
        try exec "$host" sh -c 'cat >/dev/null; hostname'
    done <list >visited
    [ "$(tr '\n' ' ' <visited)" = 'node1 node2 node3 ' ]
}

@test "several hosts in one loop" {
    run try each node1,node2,node3 sh -c 'sleep 0.5; hostname'
    status 0
    [ "$(echo "$output" | sort | tr '\n' ' ')" = 'node1 node2 node3 ' ]
}

@test "a reader that is slow holds the program back, and loses nothing" {
    try exec node1 head -c 20000000 /dev/zero | { sleep 1; wc -c; } >n
    [ "$(cat n)" -eq 20000000 ]
}

# --- configuration -------------------------------------------------------------------------

@test "C10: HostName, Port and User of ~/.ssh/config, on another port" {
    lab sh -c 'printf "Host one\n HostName 10.99.0.1\n Port 2200\n User lab\nHost *\n Port 9\n" >~/.ssh/config'
    run try exec one hostname
    status 0
    [ "$output" = node1 ]
}

@test "a jump host, and a chain of two" {
    node 0 ip route add blackhole 10.99.0.2
    node 0 ip route add blackhole 10.99.0.3
    lab sh -c 'printf "Host node2\n ProxyJump node1\nHost node3\n ProxyJump node2\n" >~/.ssh/config'
    run try exec node3 hostname
    head -c 10000000 /dev/urandom >in
    try -i exec node3 cat <in >out || true
    node 0 ip route del blackhole 10.99.0.2
    node 0 ip route del blackhole 10.99.0.3
    status 0
    [ "$output" = node3 ]
    cmp in out
}

@test "a jump host checks nothing for us: the target's key is looked up here" {
    lab sh -c 'printf "Host node2\n ProxyJump node1\n" >~/.ssh/config'
    known '/^node2/d'
    run try exec node2 hostname
    status 1
    has 'node2: its host key is not known'
}

@test "a jump host that does not get there is named" {
    lab sh -c 'printf "Host dead\n HostName 10.99.0.77\n ProxyJump node1\n" >~/.ssh/config'
    run try -t 20000 exec dead hostname
    status 4
    has 'dead (10.99.0.77 port 22): the jump host node1 does not get there'
}

# --- host keys -----------------------------------------------------------------------------

@test "an unknown host key is refused, with the line to add; added, it is known" {
    known '/^node1/d'
    run try exec node1 hostname
    status 1
    has 'node1: its host key is not known'
    has 'ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub'
    line=$(echo "$output" | grep '^node1 ssh-ed25519 ')
    [ "$line" = "node1 $(cut -d' ' -f1,2 "$D/h1/key.pub")" ]
    has "$(ssh-keygen -lf "$D/h1/key.pub" | cut -d' ' -f2)"
    echo "$line" | lab tee -a /mnt/lab/.ssh/known_hosts >/dev/null
    run try exec node1 hostname
    status 0
    run try exec lab@10.99.0.1:2200 hostname
    has "[10.99.0.1]:2200 $(cut -d' ' -f1,2 "$D/h1/key.pub")"
}

@test "a changed host key is refused, with the line that differs" {
    key=$(cut -d' ' -f2 "$D/h2/key.pub")
    known "s|^\(node1[^ ]* ssh-ed25519\) .*|\1 $key|"
    run try exec node1 hostname
    status 1
    has 'HOST KEY CHANGED: /mnt/lab/.ssh/known_hosts:1'
    lacks node1$'\n'
}

@test "a revoked host key is refused, wherever else it is known" {
    known "1i @revoked * $(cut -d' ' -f1,2 "$D/h1/key.pub")"
    run try exec node1 hostname
    status 1
    has 'HOST KEY REVOKED: /mnt/lab/.ssh/known_hosts:1'
    run try exec node2 hostname
    status 0
}

@test "a negated name is no entry" {
    known "s/^node1,/node*,!node1,/"
    run try exec node1 hostname
    status 1
    has 'not known'
}

@test "hashed names, as ssh-keygen writes them" {
    lab ssh-keygen -q -H -f /mnt/lab/.ssh/known_hosts
    ! grep -q node1 "$D/home/.ssh/known_hosts"
    run try exec node1 hostname
    status 0
    run try exec lab@node3:2200 hostname
    status 0
}

@test "another type of key than the known one is refused, not taken as unknown" {
    ssh-keygen -q -t ecdsa -N '' -f other
    known "s|^\(node1[^ ]*\) .*|\1 $(cut -d' ' -f1,2 other.pub)|"
    run try exec node1 hostname
    status 1
    has 'ssh-ed25519 key is not known, though'
    has 'ecdsa-sha2-nistp256'
}

# --- who we are ----------------------------------------------------------------------------

@test "no key that is let in: what was tried, and what to do" {
    lab sh -c 'ssh-keygen -q -t ed25519 -N "" -f ~/.ssh/other; printf "Host *\n IdentityFile ~/.ssh/other\n IdentityFile ~/.ssh/none_such\n" >~/.ssh/config'
    run try exec node1 hostname
    lab rm -f /mnt/lab/.ssh/other /mnt/lab/.ssh/other.pub
    status 1
    has 'node1: user lab is not let in'
    has '/mnt/lab/.ssh/other: refused'
    has '/mnt/lab/.ssh/none_such: No such file'
    has 'agent: none runs'
    has ssh-copy-id
}

@test "a key with a passphrase: said so, and the agent serves it" {
    lab sh -c 'cp ~/.ssh/id_ed25519 ~/.ssh/locked; ssh-keygen -q -p -P "" -N secret -f ~/.ssh/locked; printf "Host *\n IdentityFile ~/.ssh/locked\n" >~/.ssh/config'
    run try exec node1 hostname
    has '/mnt/lab/.ssh/locked: needs a passphrase'
    status 1
    cat >"$D/shared/with_agent" <<'X'
printf '#!/bin/sh\necho secret\n' >~/.ssh/ask; chmod +x ~/.ssh/ask
SSH_ASKPASS=$HOME/.ssh/ask SSH_ASKPASS_REQUIRE=force ssh-add -q ~/.ssh/locked </dev/null
exec ssh_try exec node1 hostname
X
    run lab ssh-agent sh /mnt/shared/with_agent
    lab rm -f /mnt/lab/.ssh/locked /mnt/lab/.ssh/locked.pub
    status 0
    has node1
}

@test "a key that others may read is not used" {
    lab sh -c 'cp ~/.ssh/id_ed25519 ~/.ssh/open; chmod 644 ~/.ssh/open; printf "Host *\n IdentityFile ~/.ssh/open\n" >~/.ssh/config'
    run try exec node1 hostname
    lab rm -f /mnt/lab/.ssh/open
    status 1
    has 'others may read it'
}

# --- hosts that do not answer --------------------------------------------------------------

@test "a host that is not there: named within the deadline" {
    node 0 ip neigh add 10.99.0.99 lladdr 02:00:00:00:00:99 dev lab0
    SECONDS=0
    run try -t 2000 exec 10.99.0.99 true
    status 5
    [ $SECONDS -le 5 ]
    has '10.99.0.99 does not answer on that port: the deadline passed'
}

@test "an sshd that says nothing: named within the deadline" {
    pid=$(node 3 cat /mnt/host/sshd.pid)
    node 3 kill -STOP "$pid"
    run try -t 2000 exec node3 true
    node 3 kill -CONT "$pid"
    status 5
    has 'node3 accepts the connection but its sshd says nothing'
}

@test "a port where nobody listens" {
    run try exec lab@node1:2201 true
    status 4
    has 'Connection refused'
}

@test "a session that is killed: the run is lost, and not with a status of its own" {
    try exec node2 sh -c 'echo go; sleep 60' >out 2>why &
    for _ in $(seq 100); do grep -q go out && break; sleep 0.1; done
    node 2 sh -c 'kill -9 $(pgrep -f "[s]shd: lab@notty")'
    s=0
    wait $! || s=$?
    [ "$s" -eq 4 ]
    grep -q 'lost' why
}

@test "a cable that is pulled is noticed within 15 s" {
    try exec node2 sh -c 'echo go; sleep 60' >out 2>why &
    for _ in $(seq 100); do grep -q go out && break; sleep 0.1; done
    SECONDS=0
    node 0 ip link set v2 down
    s=0
    wait $! || s=$?
    took=$SECONDS
    node 0 ip link set v2 up
    [ "$s" -eq 4 ]
    [ "$took" -le 15 ]
    grep -q 'node2: the connection was lost' why
}

# --- files, and what a host is -------------------------------------------------------------

@test "files go to a private folder, whole or not at all" {
    head -c 20000000 /dev/urandom >"$D/shared/big"
    printf '#!/bin/sh\necho started\n' >"$D/shared/small"
    : >"$D/shared/empty"
    run try copy node1 .cache/muster/abc /mnt/shared/big /mnt/shared/small /mnt/shared/empty
    status 0
    has '20000023 bytes sent'
    run try exec node1 stat -c '%a %n' .cache/muster .cache/muster/abc .cache/muster/abc/big
    [ "$(echo "$output" | cut -d' ' -f1 | tr '\n' ' ')" = '700 700 700 ' ]
    try exec node1 cmp .cache/muster/abc/big /mnt/shared/big
    run try exec node1 .cache/muster/abc/small
    has started
    run try exec node1 ls .cache/muster/abc
    [ "$(echo "$output" | tr '\n' ' ')" = 'big empty small ' ]
    run try copy node1 .cache/muster/abc /mnt/shared/big /mnt/shared/small /mnt/shared/empty
    has '0 bytes sent'
    # one that was cut short is sent again
    try exec node1 truncate -s 5 .cache/muster/abc/big
    run try copy node1 .cache/muster/abc /mnt/shared/big
    has '20000000 bytes sent'
    try exec node1 cmp .cache/muster/abc/big /mnt/shared/big
}

@test "a folder that others may enter, a link, one that cannot be made: refused" {
    echo x >"$D/shared/x"
    try exec node1 sh -c 'mkdir -m 755 open; mkdir -m 700 real; ln -s real link'
    run try copy node1 open /mnt/shared/x
    status 1
    has 'open is not a private folder'
    run try copy node1 link /mnt/shared/x
    status 1
    run try copy node1 /proc/none /mnt/shared/x
    status 4
    has 'node1: /proc/none cannot be made'
    run try copy node1 real /mnt/shared/none_such
    status 3
    try exec node1 rm -rf open real link
}

@test "a full disk there is told with its file" {
    node 1 mkdir -p /dev/shm/full
    node 1 mount -t tmpfs -o size=1m,mode=1777 full /dev/shm/full
    head -c 3000000 /dev/zero >"$D/shared/three"
    run try copy node1 /dev/shm/full/p /mnt/shared/three
    node 1 umount /dev/shm/full
    status 4
    has 'node1: /dev/shm/full/p/three'
    has 'cannot be written'
}

@test "an sshd without SFTP, and one whose login prints something, are told apart" {
    cat >"$D/shared/second" <<'X'
sed '/^Subsystem/d; /^Port 22$/d; s/^Port 2200/Port 2201/; /^PidFile/d' /mnt/host/sshd_config >~/bare
echo "PidFile $HOME/bare.pid" >>~/bare
[ -z "$1" ] || echo "Subsystem sftp $1" >>~/bare
at=/usr/sbin/sshd
[ -x $at ] || at=/mnt/build/lab/sshd$at
LD_LIBRARY_PATH=/mnt/build/lab/sshd/usr/lib/$(uname -m)-linux-gnu $at -f ~/bare
X
    known "1i [node3]:2201 $(cut -d' ' -f1,2 "$D/h3/key.pub")"
    echo x >"$D/shared/x"
    try exec node3 sh /mnt/shared/second ''
    run try copy lab@node3:2201 p /mnt/shared/x
    try exec node3 sh -c 'kill $(cat bare.pid)'
    status 4
    has 'its sshd offers no SFTP'
    try exec node3 sh /mnt/shared/second 'echo Welcome to node3'
    run try copy lab@node3:2201 p /mnt/shared/x
    try exec node3 sh -c 'kill $(cat bare.pid)'
    status 4
    has 'node3 (node3 port 2201): what answers is no SFTP server'
}

@test "C19, C03: hosts that are one machine; a name that is everybody's" {
    run try look node1,node2
    status 0
    has 'node1: node1 '
    run try look node1,10.99.0.1
    status 1
    has 'node1 and 10.99.0.1 are one machine'
    node 2 hostname node1
    run try look node1,node2
    node 2 hostname node2
    status 1
    has 'node1 and node2: same host name (node1), different machine'
}
