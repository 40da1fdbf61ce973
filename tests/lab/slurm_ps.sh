#!/bin/bash
# slurm_ps.sh DIR [all] - processes on the nodes of a lab of slurm.sh, one a line:
#   PID NODE KIND RANK   PID as seen from here; RANK - where there is none
# KIND: slurmstepd, agent (muster-agent), rank (its child), other; with "all" also
# slurmd, and the lab's own (node -).  Found by the lab's PID namespace and the nodes'
# host name namespaces, so that another lab's processes never count.  Few forks: it is
# called often, on machines that have enough to do.
set -u
D=$1 all=${2:-}
[ -e "$D/pid" ] || exit 0
one=$(pgrep -P "$(<"$D/pid")") || exit 0
mapfile -t pids < <(pgrep --ns "$one" --nslist pid .)
declare -A node_of uts_of kind_of
for f in "$D"/uts/*; do
    node_of[$(<"$f")]=${f##*/}
done

paths=("${pids[@]/#//proc/}")
paths=("${paths[@]/%//ns/uts}")
# lrwxrwxrwx 1 0 0 0 /proc/PID/ns/uts -> uts:[N]
while read -r _ _ _ _ _ path _ uts; do
    path=${path#/proc/}
    uts_of[${path%%/*}]=$uts
done < <(ls -ln --time-style=+ "${paths[@]}" 2>/dev/null)

words_of() { words=(); mapfile -d '' -t words 2>/dev/null <"/proc/$1/cmdline"; } 2>/dev/null

# $value: a variable of a process's environment
variable()
{
    local vars=() v
    mapfile -d "" -t vars 2>/dev/null <"/proc/$1/environ"
    value=
    for v in "${vars[@]}"; do
        case $v in "$2="*) value=${v#*=} ;; esac
    done
} 2>/dev/null

parent_of()
{
    local key
    parent=0
    while read -r key parent; do
        [ "$key" != PPid: ] || return
    done <"/proc/$1/status"
} 2>/dev/null

for p in "${pids[@]}"; do
    words_of "$p"
    [ ${#words[@]} -gt 0 ] || continue # a zombie
    uts=${uts_of[$p]:-}
    node=${node_of[${uts:-none}]:-}
    case "${words[*]} " in
    *slurmctld*) kind=slurmctld ;;
    slurmstepd:* | */slurmstepd\ *) kind=slurmstepd ;;
    */slurmd\ *) kind=slurmd ;;
    *muster\ agent\ exec\ * | *muster-agent\ exec\ *) kind=agent ;;
    *) kind=other ;;
    esac
    kind_of[$p]=$kind
    if [ -z "$node" ] || [ $kind = slurmd ]; then
        [ $kind != other ] || kind=lab
        [ -z "$all" ] || echo "$p ${node:--} $kind -"
        continue
    fi
    value=
    if [ $kind = other ]; then
        parent_of "$p"
        [ -n "${kind_of[$parent]:-}" ] || { words_of "$parent"; case "${words[*]} " in *muster\ agent\ exec\ * | *muster-agent\ exec\ *) kind_of[$parent]=agent ;; esac; }
        [ "${kind_of[$parent]:-}" != agent ] || kind=rank
    fi
    [ $kind = slurmstepd ] || variable "$p" SLURM_PROCID
    echo "$p $node $kind ${value:--}"
done
