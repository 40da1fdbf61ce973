# lib.bash - load it first in every .bats file: `load lib`.
# PATH starts with the build; every test has its own MUSTER_HOME and folder.
SRC=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
O=${O:-$SRC/build}
PATH="$O/bin:$O/tests/cli/helpers:$PATH"

setup()
{
    T=$(mktemp -d)
    export MUSTER_HOME="$T/home"
    cd "$T" || exit 1
}

teardown()
{
    cd / && rm -rf "$T"
}

# status WANT: the last `run` ended with this exit status
status()
{
    [ "$status" -eq "$1" ] || { echo "status $status, wanted $1"; echo "$output"; return 1; }
}

# has TEXT: the last `run` printed this text
has()
{
    case $output in *"$1"*) ;; *) echo "no '$1' in:"; echo "$output"; return 1 ;; esac
}

lacks()
{
    case $output in *"$1"*) echo "'$1' in:"; echo "$output"; return 1 ;; esac
}

# ordinary_user DIR: from here on muster and Slurm's commands run as nobody, as users of
# a cluster do, where the tests run as root.  DIR holds the programs that see to it.
ordinary_user()
{
    local name real
    [ "$(id -u)" -eq 0 ] || return 0
    # a build in a folder that others may not enter
    setpriv --reuid=nobody --clear-groups test -x "$O/bin/muster" || return 0
    chown nobody "$T"
    mkdir -p "$1"
    for name in muster salloc sbatch srun scancel; do
        real=$(PATH=${PATH#"$1:"} command -v "$name") || continue
        cat >"$1/$name" <<S
#!/bin/sh
[ "\$(id -u)" -ne 0 ] || exec setpriv --reuid=nobody --regid="\$(id -g nobody)" --clear-groups \\
    env HOME="\$MUSTER_HOME" USER=nobody LOGNAME=nobody "$real" "\$@"
exec "$real" "\$@"
S
    done
    chmod 755 "$1"/*
    PATH="$1:${PATH#"$1:"}"
}

# ---- a real Slurm (tests/lab/slurm.sh) for the tests of one file ----

# slurm_lab N: in setup_file(); N nodes, in $LAB/lab.  SKIP: why there is none.
slurm_lab()
{
    LAB=$(mktemp -d /tmp/slurm.XXXXXX)
    chmod 755 "$LAB"
    export LAB SKIP=
    SKIP=$("$SRC/tests/lab/slurm.sh" start "$1" "$LAB/lab" 2>&1) || SKIP=${SKIP:-no reason}
    [ -n "$SKIP" ] || eval "$("$SRC/tests/lab/slurm.sh" env "$LAB/lab")"
    export SKIP
}

# in teardown_file()
slurm_lab_end()
{
    "$SRC/tests/lab/slurm.sh" stop "$LAB/lab"
    rm -rf "$LAB"
}

# ---- hosts with sshd (tests/lab/ssh.sh) for the tests of one file ----

# ssh_lab N: in setup_file(); N hosts, in $D.  NO_LAB: why there are none.
ssh_lab()
{
    export O LAB="$SRC/tests/lab/ssh.sh" D=$BATS_FILE_TMPDIR/lab NO_LAB=
    if muster agent ssh -- 127.0.0.1 </dev/null 2>&1 | grep -q 'built without libssh'; then
        NO_LAB='built without libssh'
    elif ! sh "$LAB" start "$1" "$D" 2>"$BATS_FILE_TMPDIR/why"; then
        NO_LAB=$(tail -1 "$BATS_FILE_TMPDIR/why")
        [ -n "$NO_LAB" ] || NO_LAB='the lab does not start'
    fi
    export NO_LAB
}

# in teardown_file()
ssh_lab_end() { [ -n "$NO_LAB" ] || sh "$LAB" stop "$D"; }

# ssh_lab_run SECONDS SCRIPT: as the ordinary user of the login node, in the folder that
# all hosts share
ssh_lab_run()
{
    timeout $(($1 + 10)) sh "$LAB" exec "$D" timeout "$1" sh -c "cd /mnt/shared; export MUSTER_HOME=/mnt/shared/home; $2"
}

# node I COMMAND...: on host I, as root
node() { sh "$LAB" on "$D" "$@"; }
