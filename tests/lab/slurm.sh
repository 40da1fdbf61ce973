#!/bin/sh
# slurm.sh - a real Slurm cluster of virtual nodes on this machine, for tests.
#   slurm.sh start N DIR   N nodes n1..nN of 8 GRES GPUs and 64 CPUs; state in DIR
#   slurm.sh env DIR       what a client needs: eval "$(slurm.sh env DIR)"
#   slurm.sh stop DIR      end every process of the lab and wait until all are gone
#   slurm.sh kill DIR X    kill (SIGKILL) slurmctld, slurmd@NODE alone, or NODE: all on it
#   slurm.sh revive DIR X  start slurmctld, or a node's slurmd, again
#   slurm.sh ps DIR        what steps have running: PID NODE KIND RANK a line, where KIND
#                          is slurmd, slurmstepd, agent, rank or other (slurm_ps.sh)
#   slurm.sh deps          install Debian's packages for it
# Status 3: it cannot be had here; the reason is on stderr.  Needs root.
#
# slurmctld, munged and N slurmd (with what they start) live in one PID namespace under
# one process: when that ends, the kernel ends all of them.  Each node has its own host
# name, boot id, /dev/shm and folder for temporary files; they share the network of the
# machine, on ports of 127.0.0.1, and DIR/hosts as /etc/hosts.  4 nodes a leaf switch (one
# in labs of up to 4), one spine; LEAVES='n[1,3] n[2,4]' says it otherwise.  FENCE=tree
# turns the PMIx fence of Slurm 22.05 on that is no barrier.
# PREEMPT=1 adds a partition "urgent" whose jobs end those of "batch", after 10 s.
set -eu

packages='slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins libpmix-dev'

absent() { echo "slurm lab: $*" >&2; exit 3; }

deps()
{
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    # shellcheck disable=SC2086 # lists of words
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq \
        --no-install-recommends $packages >/dev/null
}

check()
{
    [ "$(id -u)" -eq 0 ] || absent 'needs root (slurmd in namespaces of its own)'
    for p in slurmctld slurmd munged srun unshare; do
        command -v $p >/dev/null || [ -x /usr/sbin/$p ] ||
            absent "$p is not installed (tests/lab/slurm.sh deps)"
    done
    [ -e /usr/lib/x86_64-linux-gnu/slurm-wlm/mpi_pmix.so ] ||
        ls /usr/lib/*/slurm*/mpi_pmix.so >/dev/null 2>&1 ||
        absent "Slurm has no PMIx plugin (slurm-wlm-basic-plugins)"
    # The plugin loads libpmix.so without a version, which only the -dev package has.
    ls /usr/lib/*/pmix2/lib/libpmix.so >/dev/null 2>&1 ||
        absent 'libpmix-dev is not installed: the PMIx plugin needs it at run time'
    unshare --uts --mount --pid --fork true 2>/dev/null ||
        absent 'namespaces are not allowed here'
}

# A first port such that the 1 + N after it are not listened on.
find_ports()
{
    at=$((20000 + $$ % 100 * 100))
    while awk -v from=$at -v n="$N" 'NR > 1 && $4 == "0A" { split($2, a, ":");
            p = 0; s = tolower(a[2]);
            for (i = 1; i <= 4; i++) p = p * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1;
            if (p >= from && p <= from + n + 1) bad = 1 } END { exit !bad }' /proc/net/tcp; do
        at=$((at + 200))
        [ $at -lt 32000 ] || absent 'no free ports'
    done
    echo $at
}

write_topology()
{
    per=4 leaf=0 first=1
    for nodes in ${LEAVES:-}; do
        echo "SwitchName=leaf$leaf Nodes=$nodes"
        leaf=$((leaf + 1)) first=$((N + 1))
    done
    [ "$N" -gt 4 ] || per=1
    while [ $first -le "$N" ]; do
        last=$((first + per - 1))
        [ $last -le "$N" ] || last=$N
        echo "SwitchName=leaf$leaf Nodes=n[$first-$last]"
        leaf=$((leaf + 1)) first=$((last + 1))
    done
    echo "SwitchName=spine Switches=leaf[0-$((leaf - 1))]"
}

# config_overrides: 64 CPUs on whatever there is.  TmpFS of its own: nodes of one machine
# collide in the PMIx plugin's folder else.  gres.conf wants character devices.
write_conf()
{
    port=$(find_ports)
    host=$(hostname -s)
    cat >"$D/slurm.conf" <<C
ClusterName=lab
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$D/munge/sock
CredType=cred/munge
StateSaveLocation=$D/ctld
SlurmdSpoolDir=$D/spool/%n
SlurmctldPidFile=$D/ctld.pid
SlurmdPidFile=$D/spool/%n.pid
SlurmctldLogFile=$D/log/ctld.log
SlurmdLogFile=$D/log/%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=5,batch_sched_delay=0,sched_min_interval=0
TopologyPlugin=topology/tree
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
TmpFS=$D/tmp/%n
SlurmctldTimeout=300
SlurmdTimeout=300
InactiveLimit=0
MinJobAge=300
KillWait=5
MessageTimeout=20
MailProg=/bin/true
PropagateResourceLimits=NONE
NodeName=n[1-$N] NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + N))] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=16000 Gres=gpu:b200:8 State=UNKNOWN
PartitionName=batch Nodes=n[1-$N] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO ${PREEMPT:+GraceTime=10 PreemptMode=CANCEL}
C
    [ -z "${PREEMPT:-}" ] || preemption >>"$D/slurm.conf"
    echo "NodeName=n[1-$N] Name=gpu Type=b200 File=$D/dev/b200_[0-7]" >"$D/gres.conf"
    printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$D/cgroup.conf"
    echo "PMIxCollFence=${FENCE:-ring}" >"$D/mpi.conf"
    write_topology >"$D/topology.conf"
}

preemption()
{
    cat <<C
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=urgent Nodes=n[1-$N] PriorityTier=10 MaxTime=INFINITE State=UP OverSubscribe=NO PreemptMode=OFF
C
}

make_state()
{
    mkdir -p "$D/munge" "$D/ctld" "$D/spool" "$D/log" "$D/dev" "$D/tmp" "$D/boot" "$D/uts"
    chmod 755 "$D" "$D/munge"
    (umask 077 && head -c 128 /dev/urandom >"$D/munge/key")
    for i in 0 1 2 3 4 5 6 7; do mknod -m 666 "$D/dev/b200_$i" c 1 3; done
    i=0
    while [ $((i += 1)) -le "$N" ]; do
        mkdir -p "$D/spool/n$i" "$D/tmp/n$i"
        cat /proc/sys/kernel/random/uuid >"$D/boot/n$i"
    done
    write_hosts >"$D/hosts"
    write_conf
}

# The nodes' /etc/hosts: the names of all lead to this machine's address.
write_hosts()
{
    address=$(hostname -I 2>/dev/null | awk '{ print $1 }')
    cat /etc/hosts
    i=0
    while [ $((i += 1)) -le "$N" ]; do echo "${address:-127.0.0.1} n$i"; done
}

# `slurmctld -D` and `slurmd -D` say on stderr why they end.
controller()
{
    exec /usr/sbin/slurmctld -D -f "$SLURM_CONF" >/dev/null 2>>"$D/log/ctld.err"
}

node()
{
    # shellcheck disable=SC2016 # for the inner shell
    I=$1 exec unshare --uts --mount --propagation private sh -c '
        hostname "$I"
        readlink /proc/self/ns/uts >"$D/uts/$I"
        mount -t tmpfs -o size=256m shm /dev/shm
        mount --bind "$D/hosts" /etc/hosts
        mount --bind "$D/boot/$I" /proc/sys/kernel/random/boot_id 2>/dev/null
        exec /usr/sbin/slurmd -D -f "$SLURM_CONF" -N "$I"' \
        >/dev/null 2>>"$D/log/$1.err"
}

# PID 1 of the lab.
inside()
{
    export SLURM_CONF="$D/slurm.conf"
    /usr/sbin/munged --force --key-file="$D/munge/key" --socket="$D/munge/sock" \
        --pid-file="$D/munge/pid" --log-file="$D/munge/log" \
        --seed-file="$D/munge/seed" --num-threads=4
    controller &
    i=0
    while [ $((i += 1)) -le "$N" ]; do
        node "n$i" &
    done
    while :; do sleep 3600; done # PID 1 reaps what others leave behind
}

# ---- faults ----

# PIDs, as seen from here, of the lab: field 1 of lines "PID NODE KIND ..." that match
pids_of() { bash "${self%.sh}_ps.sh" "$D" all | awk "$1 { print \$1 }"; }

kill_one()
{
    # shellcheck disable=SC2016 # for awk
    case $X in
    slurmctld) match='$3 ~ /^slurmctld/' ;;
    slurmd@*) match="\$2 == \"${X#slurmd@}\" && \$3 == \"slurmd\"" ;;
    *) match="\$2 == \"$X\"" ;;
    esac
    k=0
    while list=$(pids_of "$match") && [ -n "$list" ] && [ $((k += 1)) -le 50 ]; do
        # shellcheck disable=SC2086 # a list
        kill -KILL $list 2>/dev/null || true
        case $X in slurmctld | slurmd@*) return ;; esac
    done
}

revive()
{
    export D SLURM_CONF="$D/slurm.conf"
    one=$(pgrep -P "$(cat "$D/pid")")
    nsenter -t "$one" -p -m sh "$self" rise "$D" "$X" </dev/null >/dev/null 2>&1 &
}

rise()
{
    export D SLURM_CONF="$D/slurm.conf"
    case $X in
    slurmctld) controller ;;
    *) node "$X" ;;
    esac
}

start()
{
    check
    [ ! -e "$D/pid" ] || absent "$D holds a lab already: stop it first"
    mkdir -p "$D"
    make_state
    export D N
    unshare --pid --mount --fork --kill-child --mount-proc sh "$self" inside "$N" "$D" \
        </dev/null >"$D/log/lab" 2>&1 &
    pid=$!
    echo $pid >"$D/pid"
    export SLURM_CONF="$D/slurm.conf"
    k=0
    while [ "$(timeout 5 sinfo -h -t idle -o %D 2>/dev/null | head -1)" != "$N" ]; do
        if ! kill -0 $pid 2>/dev/null || [ $((k += 1)) -gt 300 ]; then
            tail -n 3 "$D"/log/* >&2
            stop
            absent "not all $N nodes came up"
        fi
        sleep 0.1
    done
}

# The kernel ends the rest with PID 1 of the namespace; unshare ends when that did.
stop()
{
    [ -e "$D/pid" ] || return 0
    pid=$(cat "$D/pid")
    case $(ps -o args= -p "$pid") in
    *slurm.sh\ inside*) kill -KILL "$pid" ;;
    esac
    while grep -qs 'State:[[:space:]]*[^Z]' "/proc/$pid/status"; do sleep 0.05; done
    k=0
    while pgrep -f "$D/slurm.conf" >/dev/null && [ $((k += 1)) -le 200 ]; do sleep 0.05; done
    rm -f "$D/pid"
    [ $k -le 200 ] || { echo "slurm lab: processes of $D are left" >&2; exit 4; }
}

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d' >&2; exit 2; }

self=$(cd "$(dirname "$0")" && pwd)/${0##*/}
case ${1:-} in
start | inside) [ $# -eq 3 ] || usage; N=$2 D=$3 ;;
stop | env | ps) [ $# -eq 2 ] || usage; D=$2 ;;
kill | revive | rise) [ $# -eq 3 ] || usage; D=$2 X=$3 ;;
deps) ;;
*) usage ;;
esac
case ${D:-/} in /*) ;; *) D=$PWD/$D ;; esac
case $1 in
env) echo "export SLURM_CONF='$D/slurm.conf'" ;;
ps) exec bash "${self%.sh}_ps.sh" "$D" ;;
kill) kill_one ;;
*) "$1" ;;
esac
