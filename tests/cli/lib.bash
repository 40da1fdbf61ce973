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
