# muster launch -- COMMAND with a PyTorch program as it is (env://, gloo), on every
# backend.  MUSTER_TEST_PYTHON: a python3 with torch.
load lib

PY=${MUSTER_TEST_PYTHON:-python3}

setup_file()
{
    export NO_TORCH= SLURM_LAB= SSH_LAB=$BATS_FILE_TMPDIR/ssh
    timeout 100 "${MUSTER_TEST_PYTHON:-python3}" -c 'import torch.distributed as d; assert d.is_available()' 2>/dev/null ||
        NO_TORCH='no python3 with torch here (MUSTER_TEST_PYTHON names one)'
}

setup()
{
    [ -z "$NO_TORCH" ] || skip "$NO_TORCH"
    T=$(mktemp -d)
    export MUSTER_HOME="$T/home" OMP_NUM_THREADS=1
    cd "$T" || exit 1
}

# met RANKS HOSTS: all of them said so
met()
{
    status 0
    [ "$(grep -c "of $1 sum $(($1 * ($1 + 1) / 2)) hosts $2\$" <<<"$output")" -eq "$1" ] ||
        { echo "$output"; return 1; }
}

@test "torch: env:// on this machine" {
    run timeout 200 muster launch --gpus 4 -- "$PY" "$SRC/tests/cli/torch_env.py"
    met 4 1
}

@test "torch: env:// over two agents" {
    [ "$(id -u)" -eq 0 ] || skip 'needs root'
    MUSTER_TEST_LOCAL_AGENTS=2 run timeout 200 muster launch --gpus 4 -- "$PY" "$SRC/tests/cli/torch_env.py"
    status 0
    [ "$(grep -c 'of 4 sum 10' <<<"$output")" -eq 4 ]
}

@test "torch: env:// in a step of Slurm on two nodes" {
    lab=$T/lab
    "$SRC/tests/lab/slurm.sh" start 2 "$lab" 2>why || skip "$(tail -1 why)"
    eval "$("$SRC/tests/lab/slurm.sh" env "$lab")"
    run timeout 200 salloc -Q -N2 --gres=gpu:2 muster launch --gpus 4 -- "$PY" "$SRC/tests/cli/torch_env.py"
    "$SRC/tests/lab/slurm.sh" stop "$lab"
    met 4 2
    has 'n2:3: rank 3 local 1 of 4'
}

# host 2 has a bridge of containers, and its own name leads to loopback there (C03, C04)
strange='ip link add docker0 type veth peer name peer0
    ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up; ip link set peer0 up
    { echo 127.0.1.1 node2; cat /etc/hosts; } >/tmp/hosts && mount --bind /tmp/hosts /etc/hosts'

@test "torch: env:// over SSH on three hosts, one of them strange" {
    if muster agent ssh -- 127.0.0.1 </dev/null 2>&1 | grep -q 'built without libssh'; then
        skip 'built without libssh'
    fi
    lab() { timeout 200 sh "$SRC/tests/lab/ssh.sh" "$@"; }
    lab start 3 "$T/ssh" 2>why || skip "$(tail -1 why)"
    why=
    lab on "$T/ssh" 2 sh -c "$strange" || why='no mounts in the lab'
    lab exec "$T/ssh" "$PY" -c 'import torch' || why="the lab's user cannot run $PY with torch"
    run lab exec "$T/ssh" sh -c "cd /mnt/shared; export OMP_NUM_THREADS=1 MUSTER_HOME=/mnt/shared/home
        muster launch -v --gpus 6 --hosts node1,node2,node3 -- $PY /mnt/muster/tests/cli/torch_env.py"
    lab stop "$T/ssh"
    [ -z "$why" ] || skip "$why"
    met 6 3
    has 'GLOO_SOCKET_IFNAME is set to eth0 on node2: the machine'
}
