load lib

@test "nodes: expand, fold and count" {
    run muster nodes expand 'pa-16-node-[001-002,004],c[1-2][3-4]'
    status 0
    [ "$output" = "$(printf '%s\n' pa-16-node-001 pa-16-node-002 pa-16-node-004 c13 c14 c23 c24)" ]
    run muster nodes fold n099 n100 n101 gpu1-ib 'm[1-2]'
    [ "$output" = 'n[099-101],gpu1-ib,m[1-2]' ]
    run muster nodes count 'gn[001-512],login'
    [ "$output" = 513 ]
}

@test "nodes: B01, B03: every row of the cases" {
    while IFS='	' read -r list names; do
        case $list in \#*) continue ;; esac
        [ "$(muster nodes expand "$list" | tr '\n' ' ')" = "$names " ]
    done <"$SRC/tests/cases/b01_hostlists.tsv"
    while IFS='	' read -r names list; do
        case $names in \#*) continue ;; esac
        [ "$(muster nodes fold "$names")" = "$list" ]
    done <"$SRC/tests/cases/b03_fold.tsv"
}

@test "nodes: - reads standard input" {
    printf 'compute-811\r\ncompute-866\n\ncompute-571 compute-743' >hosts
    run muster nodes fold - <hosts
    status 0
    [ "$output" = 'compute-[811,866,571,743]' ]
    printf 'a\0b' >nul
    run muster nodes expand - <nul
    status 2
    has 'NUL byte'
    head -c 1100000 /dev/zero | tr '\0' a >long
    run muster nodes count - <long
    status 2
    has '1 MiB'
}

@test "nodes: B04: a repeated node is said, and dropped when asked" {
    run muster nodes expand 'n[1-3,2-4]'
    status 0
    has 'named more than once: n[2-3]; all are kept'
    [ "$(muster nodes count 'n[1-3,2-4]' 2>/dev/null)" = 6 ]
    run muster nodes fold --unique 'n[1-3,2-4]' n1,n1
    status 0
    has 'named more than once: n[2-3,1]; the first of each is kept'
    has 'n[1-4]'
    [ "$(muster nodes expand --unique n1,n1,n1 2>/dev/null)" = n1 ]
}

@test "nodes: --json" {
    muster nodes expand --json 'gn[01-02],gn01' 2>/dev/null >a.json
    jq -e '.schema == "muster/nodes/1" and .count == 3 and .list == "gn[01-02,01]"
        and .nodes == ["gn01","gn02","gn01"] and .repeated == ["gn01"]' a.json
}

@test "nodes: what is wrong has one line and status 2" {
    for list in 'n[1-2' 'n[2-1]' 'n[]' 'n[1-65537]' 'a[1-2]b' '' ' ' 'n[0-18446744073709551615]' '-x'; do
        run muster nodes expand -- "$list"
        status 2
        [ "${#lines[@]}" -eq 1 ]
        has "host list '$list'"
    done
    run muster nodes expnd x
    status 2
    has "did you mean 'expand'?"
    run muster nodes expand
    status 2
    has 'no host list is given'
    run muster nodes
    status 2
    run muster nodes fold --jsn x
    status 2
    has "did you mean '--json'?"
    run muster nodes --help
    status 0
    has 'fold'
}

@test "nodes: as scontrol says, where Slurm is installed" {
    command -v scontrol >/dev/null || skip 'no scontrol here (Debian: slurm-client)'
    printf 'ClusterName=t\nSlurmctldHost=localhost\n' >slurm.conf
    export SLURM_CONF=$PWD/slurm.conf
    for list in 'x[0-1][0-1]-[0-1]' 'n[001-2,3]' 'bar005,bar0[20-22],bar[20,22-24]' 'a[1-2]b[08-11]'; do
        [ "$(muster nodes expand "$list")" = "$(scontrol show hostnames "$list")" ]
        names=$(muster nodes expand "$list" | paste -sd,)
        [ "$(muster nodes fold "$names")" = "$(scontrol show hostlist "$names")" ]
    done
}

@test "nodes: lists of any size take bounded time and memory" {
    # 400 MB of address space, 10 s each on a loaded machine
    for list in 'n[0-65535][0-65535]' 'x[0-65535],y[0-65535],z' 'n[1-99999999999999999999]' \
        "$(printf 'n[0-9]%.0s' 1 2 3 4 5 6 7 8 9)" "n$(printf '[0-9]%.0s' 1 2 3 4 5 6 7 8)" \
        "$(printf 'a%.0s' $(seq 1 60000))"; do
        run bash -c 'ulimit -v 400000; exec timeout 10 muster nodes count "$1"' - "$list"
        status 2
    done
    run bash -c 'ulimit -v 400000; seq -f "n%.0f" 0 131071 | timeout 20 muster nodes fold -'
    status 0
    [ "$output" = 'n[0-131071]' ] || [ "$output" = 'n[0-65535],n[65536-131071]' ] || has 'n[0-'
    run bash -c 'ulimit -v 400000; seq -f "n%.0f" 0 131072 | timeout 20 muster nodes count -'
    status 2
    has 'more than'
}
