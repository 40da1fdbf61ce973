#!/bin/sh
# slurm_ps.sh DIR [all] - processes on the nodes of a lab of slurm.sh, one a line:
#   PID NODE KIND RANK   PID as seen from here; RANK - where there is none
# KIND: slurmstepd, agent (muster-agent), rank (its child), other; with "all" also
# slurmd, and the lab's own (node -).  Found by the lab's PID namespace and the nodes'
# host name namespaces, so that another lab's processes never count.
set -u
D=$1 all=${2:-}
[ -e "$D/pid" ] || exit 0
one=$(pgrep -P "$(cat "$D/pid")") || exit 0

node_of()
{
    uts=$(readlink "/proc/$1/ns/uts") || return 1
    f=$(grep -lxF "$uts" "$D"/uts/* 2>/dev/null | head -1)
    echo "${f##*/}"
}

words_of() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline"; } 2>/dev/null
# A variable of a process's environment
variable() { { tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null | sed -n "s/^$2=//p" | head -1; }

for p in $(pgrep --ns "$one" --nslist pid .); do
    words=$(words_of "$p")
    [ -n "$words" ] || continue # a zombie
    node=$(node_of "$p") || continue
    if [ -z "$node" ]; then
        case $words in *slurmctld*) kind=slurmctld ;; *) kind=lab ;; esac
        [ -z "$all" ] || echo "$p - $kind -"
        continue
    fi
    rank=$(variable "$p" SLURM_PROCID)
    case $words in
    /usr/sbin/slurmd\ *) [ -n "$all" ] && echo "$p $node slurmd -"; continue ;;
    slurmstepd:* | */slurmstepd\ *) kind=slurmstepd rank= ;;
    *muster\ agent\ exec* | *muster-agent\ exec*) kind=agent ;;
    *) kind=other
        parent=$(awk '/^PPid:/ { print $2 }' "/proc/$p/status" 2>/dev/null)
        case $(words_of "${parent:-0}") in *muster\ agent\ exec* | *muster-agent\ exec*) kind=rank ;; esac ;;
    esac
    echo "$p $node $kind ${rank:--}"
done
