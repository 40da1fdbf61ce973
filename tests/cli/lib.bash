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
