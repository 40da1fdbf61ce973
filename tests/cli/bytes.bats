# What ranks get is what the user has, byte for byte, on every backend; what people see
# holds no secret (cases C15, C17).
load lib

setup_file()
{
    LAB=$(mktemp -d /tmp/slurm.XXXXXX)
    export LAB SKIP=
    SKIP=$("$BATS_TEST_DIRNAME/../lab/slurm.sh" start 2 "$LAB/lab" 2>&1) || SKIP=${SKIP:-no reason}
    [ -n "$SKIP" ] || eval "$("$BATS_TEST_DIRNAME/../lab/slurm.sh" env "$LAB/lab")"
    export SKIP
}

teardown_file()
{
    "$BATS_TEST_DIRNAME/../lab/slurm.sh" stop "$LAB/lab"
    rm -rf "$LAB"
}

local_() { run timeout 100 "$@"; }
agents()
{
    [ "$(id -u)" -eq 0 ] || skip 'needs root'
    MUSTER_TEST_LOCAL_AGENTS=2 run timeout 100 "$@"
}
slurm()
{
    [ -z "$SKIP" ] || skip "$SKIP"
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

@test "secrets: on this machine" { hush local_; }
@test "secrets: behind agents" { hush agents; }
@test "secrets: in a step of Slurm" { hush slurm; }
