bats_require_minimum_version 1.5.0

# Recorded and made-up machines, each as text against what stands in tests/cases/expected,
# and as JSON that loads back equal.  REWRITE=1 writes what is expected anew: read the
# difference before it is committed.
load lib

expected=$SRC/tests/cases/expected

# replay NAME SOURCE... - sources are merged in this order
replay()
{
    local name=$1 options=() source
    shift
    for source; do
        options+=(--source "$source")
    done
    muster topo "${options[@]}" >"$name.here"
    sed "s|$SRC/||g" "$name.here" >"$name.txt" # wherever the project lies
    if [ -n "${REWRITE:-}" ]; then
        mkdir -p "$expected"
        cp "$name.txt" "$expected/$name.txt"
    fi
    diff -u "$expected/$name.txt" "$name.txt"
    muster topo "${options[@]}" --json >"$name.json"
    muster topo --source "json:$name.json" --json | diff "$name.json" -
    muster topo "${options[@]}" --format svg | tail -1 | grep -qx '</svg>'
}

@test "replay: recorded files of a machine with two H200" {
    c=$SRC/tests/cases/recorded
    replay recorded_xml "ncclxml:$c/topo.xml"
    replay recorded_matrix "smi:$c/smi_topo_2xh200.txt"
    replay recorded_nvlink "smi:$c/nvlink_status_2xh200.txt"
    replay recorded_all "ncclxml:$c/topo.xml" "smi:$c/smi_topo_2xh200.txt" "smi:$c/nvlink_status_2xh200.txt"
}

@test "replay: NCCL's files and matrices of published cases" {
    c=$SRC/tests/cases
    for name in a07_vm_flat a07_vm_injected_bridges a09_h100_four_switches; do
        replay "$name" "ncclxml:$c/$name.xml"
    done
    for name in a01_nvlink_s a01_topo_pair_down a02_nvlink_s_h100nvl a03_topo_new_header a03_topo_numa_na \
        a03_topo_old_header a03_topo_spaces_paste a06_topo_islands; do
        replay "$name" "smi:$c/$name.txt"
    done
}

@test "replay: topologies of Slurm" {
    c=$SRC/tests/cases
    for name in b09_topology_good b09_topology_two_roots b10_block; do
        replay "$name" "slurmconf:$c/$name.conf"
    done
    replay b10_cliques "slurmconf:$c/b10_block.conf" "cliques:$c/b10_cliques.tsv"
}

@test "replay: trees of /sys" {
    for shape in hgx down vm small; do
        sh "$SRC/tests/trees/make.sh" "$shape" "$T/$shape"
        replay "sysfs_$shape" "sysfs:$T/$shape"
    done
    replay sysfs_vm_xml "sysfs:$T/vm" "ncclxml:$SRC/tests/cases/recorded/topo.xml"
}

@test "replay: described clusters" {
    for name in b200-64x8 h200-16x8 laptop; do
        replay "$name" "spec:$SRC/recipes/clusters/$name.yaml"
    done
}

# What is malformed is one line that names file and line, and nothing is shown.
@test "replay: malformed files are one line with file and line, and no topology" {
    printf '<system version="1">\n  <cpu numaid="0">\n    <pci busid="zz" class="0x03"/>\n  </cpu>\n</system>\n' >bad.xml
    printf 'SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n2\n' >bad.conf
    printf -- '- topology: t\n  tree:\n    switches:\n      - nodes: n1\n' >bad.yaml
    printf 'Switch\t4 "S-0000000000000001"\t# "a"\n[1]\tnonsense\n' >bad.ibnet
    printf '\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tQQ\t X \n' >bad.smi
    printf 'nodes: {count: 2}\ngpus: {per_node: many}\n' >bad.spec
    printf 'n1 %s.1\nn2 N/A\n' 0d3f8a2e-0000-4000-8000-000000000000 >bad.cliques
    printf '{"schema": "muster/topo/1",\n "nodes": [,]}\n' >bad.json
    for source in ncclxml:bad.xml:3 slurmconf:bad.conf:2 slurmconf:bad.yaml:4 ibnet:bad.ibnet:2 smi:bad.smi:3 \
        spec:bad.spec:2 cliques:bad.cliques:2 json:bad.json:2; do
        file=${source%:*}
        run --separate-stderr muster topo --source "$file" --json
        [ "$status" -eq 2 ] && [ -z "$output" ]
        [ "$(wc -l <<<"$stderr")" -eq 1 ]
        [[ "$stderr" == *"${source#*:}:"* ]] || { echo "$source: $stderr"; return 1; }
    done
}
