#!/bin/sh
# rules.sh FOLDER... - the rules that a compiler does not check.  Folders low to high.
# shellcheck disable=SC2013 # words: our file names hold no blanks
set -u
bad=0
say() { echo "lint: $*"; bad=1; }

# 1. A folder includes only folders named before it, itself, and base/ at the bottom.
seen='base gen'
for folder in "$@"; do
    seen="$seen $folder"
    for inc in $(grep -rhoE '^#include "[^"]+"' "$folder" | sed 's/.*"\(.*\)"/\1/' | sort -u); do
        case " $seen " in
        *" ${inc%%/*} "*) ;;
        *) say "$folder includes $inc: only $seen may be used there" ;;
        esac
    done
done
if grep -rqE '^#include "(recipes|topology|trainer|checks|launcher)/' recipes/base; then
    say 'recipes/base stands alone'
fi

# 2. An outside library has one door.
doors='yaml\.h=recipes/yaml.c jansson\.h=recipes/base/js.c sqlite3\.h=launcher/store
cblas\.h=trainer/blas_openblas.c mpi\.h=trainer/coll_mpi pmix_server\.h=launcher/pmix_server
pmix\.h=trainer/wireup_pmix.c,launcher/pmix_server nccl\.h=trainer/coll_nccl cudnn=trainer/graph_cudnn cupti=trainer/profile_cupti.c
slurm/=launcher/slurm_lib.c infiniband/=topology/ibnet_live.c libssh/=launcher/ssh openssl/=launcher/ssh_hash.c'
for pair in $doors; do
    for f in $(grep -rlE "^#include <${pair%%=*}" "$@"); do
        ok=
        for door in $(echo "${pair#*=}" | tr ',' ' '); do
            case $f in "$door"*) ok=1 ;; esac
        done
        [ -n "$ok" ] || say "$f includes <${pair%%=*}>; only ${pair#*=} may"
    done
done

# 3. Library code neither prints failures nor exits.
for f in $(grep -rlE '(^|[^_a-zA-Z])(exit|perror)\(|fprintf\(stderr' "$@" --include='*.c' --include='*.cu'); do
    case $f in launcher/main.c | trainer/train.c | checks/probe.c | launcher/guard.c) ;;
    *) say "$f prints to stderr or exits" ;;
    esac
done

# 4. Calls that cannot be used safely.
for f in $(grep -rlE '(^|[^_a-zA-Z])(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atof|atol|system|popen)\(' "$@"); do
    say "$f: strcpy, strcat, sprintf, strtok, atoi, system and popen are not used here"
done

# 5. Small files, no struct typedefs, headers that introduce themselves.
files=$(find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh')
for f in $files; do
    n=$(wc -l <"$f")
    [ "$n" -le 500 ] || say "$f has $n lines; split it (500)"
    case $f in
    *.h)
        head -1 "$f" | grep -q "^/\* ${f##*/} - " || say "$f does not begin with /* ${f##*/} - what it is for"
        grep -q '^#ifndef .*_H$' "$f" || say "$f has no include guard"
        ! grep -q '^typedef struct' "$f" || say "$f: no struct typedefs"
        ;;
    esac
done
exit $bad
