# What ranks get is what the user has, byte for byte, on every backend; what people see
# holds no secret (cases C15, C17).
load lib

setup_file() { slurm_lab 2; }
teardown_file() { slurm_lab_end; }

local_() { run timeout 100 "$@"; }
agents()
{
    [ "$(id -u)" -eq 0 ] || skip 'needs root'
    MUSTER_TEST_LOCAL_AGENTS=2 run timeout 100 "$@"
}
slurm()
{
    [ -z "$SKIP" ] || skip "$SKIP"
    ordinary_user "$LAB/bin"
    run timeout 100 salloc -Q -N2 --gres=gpu:2 "$@"
}

# bytes BACKEND: values and arguments of all kinds, at each of four ranks
bytes()
{
    V=$'tab\there\nnew line "q" \'s\' $HOME `id` \\ \xc3\xa9 \xff, a,b=c; '
    export V E= NCCL_IB_HCA=mlx5_0,mlx5_1 X='a b;c"d' Y=é SLURM_EXPORT_ENV=NONE
    args=('' '*' -x "--out=a b'c\"d\$HOME" "$V" '--' '; exit 3')
    "$1" muster launch --gpus 4 -- sh -c '
        printf %s "$V" >v.$RANK; printf %s "${E-unset}" >e.$RANK; printf "%s\0" "$@" >a.$RANK
        cat /proc/$$/environ >env.$RANK' sh "${args[@]}"
    status 0
    printf '%s\0' "${args[@]}" >args
    for r in 0 1 2 3; do
        cmp <(printf %s "$V") v.$r
        [ ! -s e.$r ]
        cmp args a.$r
        for v in E= NCCL_IB_HCA=mlx5_0,mlx5_1 'X=a b;c"d' Y=é "PATH=$PATH"; do
            grep -azqxF -- "$v" env.$r || { echo "no $v"; false; }
        done
    done
}

@test "C15, C17: bytes on this machine" { bytes local_; }
@test "C15, C17: bytes behind agents" { bytes agents; }
@test "C15, C17: bytes in a step of Slurm" { bytes slurm; }

# hush BACKEND: five secrets, seen by ranks and by nobody else
hush()
{
    export HF_TOKEN=hush1 PGPASSWORD=hush2 https_proxy=http://me:hush3@192.0.2.1:3128
    cmd=(muster launch --gpus 2 -v)
    args=(--api-key=hush4 --db-password hush5)
    echo '[ "$HF_TOKEN$PGPASSWORD$1$3" = hush1hush2--api-key=hush4hush5 ]' >see
    for how in "$1 ${cmd[*]} --dry-run" "$1 ${cmd[*]}" "$1 ${cmd[*]} --json"; do
        $how -- sh see "${args[@]}"
        status 0
        lacks hush
    done
    muster runs | { ! grep hush; }
    muster report | { ! grep hush; }
    ! grep -raF hush "$MUSTER_HOME"
}

# lines BACKEND: 2000 lines of four ranks, each written in two halves, and a last word
lines()
{
    echo 'i=0; while [ $i -lt 500 ]; do printf "%s-%0120d" $RANK $i; printf "%0120d\n" $i; i=$((i + 1)); done
        printf "last \377"' >talk
    "$1" muster launch --gpus 4 -- sh talk
    status 0
    [ "$(grep -acE '^[^:]*:([0-3]): \1-0{117}[0-9]{3}0{117}[0-9]{3}$' <<<"$output")" -eq 2000 ]
    [ "$(grep -ac "$(printf ':[0-3]: last \377$')" <<<"$output")" -eq 4 ]
}

@test "C18: whole lines, in a step of Slurm" { LC_ALL=C lines slurm; }
@test "C18: whole lines, behind agents" { LC_ALL=C lines agents; }

# A loop over a list goes on: no rank has eaten it.
list()
{
    printf 'n1\nn2\nn3\n' >list
    n=0
    while read -r node; do
        "$1" muster launch --gpus 2 -- sh -c 'wc -c'
        status 0
        [ "$(grep -c ': 0$' <<<"$output")" -eq 2 ]
        n=$((n + 1))
    done <list
    [ $n -eq 3 ]
}

@test "C12: stdin stays with the user, in a step of Slurm" { list slurm; }
@test "C12: stdin stays with the user, behind agents" { list agents; }

@test "C20: ranks of a step of Slurm that never meet are named with their nodes" {
    slurm muster launch --gpus 4 --start-timeout 4s --grace 1s -- sh -c 'case $RANK in 1|3) sleep 60 ;; esac; exec coll_test all'
    status 5
    has '2 of 4 ranks did not arrive at '
    has 'rank 1 on n1, rank 3 on n2'
}

@test "C02: the submit host is no master; C01: outer words make no singleton" {
    set -a; . "$SRC/tests/cases/c01_singleton.env"; set +a
    unset SLURM_JOB_ID SLURM_JOBID
    slurm env SLURM_LAUNCH_NODE_IPADDR=192.0.2.9 muster launch --gpus 4 -- sh -c 'echo $PMIX_RANK of $WORLD_SIZE at $MASTER_ADDR'
    status 0
    for r in 0 1 2 3; do has ":$r: $r of 4 at n1"; done
}

@test "secrets: on this machine" { hush local_; }
@test "secrets: behind agents" { hush agents; }
@test "secrets: in a step of Slurm" { hush slurm; }
