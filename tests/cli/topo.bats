load lib

@test "topo: a replayed machine as a tree" {
    sh "$SRC/tests/trees/make.sh" hgx "$T/hgx"
    run muster topo --source "sysfs:$T/hgx"
    status 0
    has 'node hgx01  boot id 11111111-2222-3333-4444-555555555555'
    has 'gpus  8 x NVIDIA H200, memory unknown'
    has 'gpu   4 0000:9a:10.0, NUMA 1, PCIe 48 GB/s, nic mlx5_7 PIX'
    has 'mlx5_8 0000:68:02.0 infiniband 200 Gb/s, storage, up (shares no PCIe switch with a GPU)'
    has 'fail  hgx01 gpu 3: PCIe link of 0000:5d:10.0 has 8 of 16 lanes'
    lacks docker0
}

@test "topo: --json has the keys that scripts rely on, and loads back" {
    sh "$SRC/tests/trees/make.sh" down "$T/hgx"
    muster topo --source "sysfs:$T/hgx" --json >a.json
    run jq -r '.schema, .nodes[0].name, (.nodes[0].gpus | length), (.nodes[0].nics | length),
        (.fabric.switches | length), (.fabric.links | length), .findings[-1].severity,
        .findings[-1].object' a.json
    status 0
    [ "$output" = "$(printf '%s\n' muster/topo/1 hgx01 8 11 0 0 fail 'hgx01 mlx5_2')" ]
    muster topo --source json:a.json --format json >b.json
    cmp a.json b.json
}

@test "topo: this machine" {
    run muster topo
    status 0
    has "node $(uname -n)"
    has 'topology from sysfs'
}

@test "topo: the driver's view comes from libnvidia-ml.so.1" {
    LD_LIBRARY_PATH="$O/tests/fake" run muster topo --source nvml
    status 0
    has 'gpu   1 0000:00:07.0 NVIDIA H200, 140 GiB, sm_90, NUMA unknown, 18 NVLinks 478 GB/s to switch'
}

@test "topo: a driver of another version is a finding, not the end" {
    FAKE_NVML=mismatch LD_LIBRARY_PATH="$O/tests/fake" run muster topo
    status 0
    has 'Driver/library version mismatch'
    FAKE_NVML=mismatch LD_LIBRARY_PATH="$O/tests/fake" run muster topo --source nvml
    status 4
}

@test "topo: no driver is missing, status 3" {
    [ -z "$(ldconfig -p | grep libnvidia-ml.so.1)" ] || skip "this machine has a driver"
    run muster topo --source nvml
    status 3
    has 'no NVIDIA driver'
}

@test "topo: a described cluster says so" {
    run muster topo --source "spec:$SRC/recipes/clusters/b200-64x8.yaml"
    status 0
    has 'simulated: described, not looked at'
    has 'node b200-[01-64] (64 alike)'
    has 'links 128 between switches, 512 cables of 400 Gb/s'
    muster topo --source "spec:$SRC/recipes/clusters/b200-64x8.yaml" --json |
        jq -e '.simulated == true and (.nodes | length) == 64'
}

@test "topo: a second source adds what the first has not" {
    sh "$SRC/tests/trees/make.sh" vm "$T/vm"
    muster topo --source "sysfs:$T/vm" --json >a.json
    LD_LIBRARY_PATH="$O/tests/fake" muster topo --source nvml --json |
        jq '.nodes[0].name = "h200-vm"' >b.json
    run muster topo --source json:a.json --source json:b.json
    status 0
    has 'gpu   1 0000:00:07.0 NVIDIA H200, 140 GiB, sm_90'
    has 'from sysfs+nvml: 1 node'
}

@test "topo: wrong words get a suggestion and their status" {
    run muster topo --source spce:x
    status 2
    has "no source 'spce' (did you mean 'spec'?)"
    run muster topo --format jsn
    status 2
    has "no format 'jsn' (did you mean 'json'?): this muster writes text, json"
    run muster topo --sorce x
    status 2
    has "did you mean '--source'?"
    run muster topo spec:x
    status 2
    run muster topo --source spec:/nonexistent.yaml
    status 3
    has /nonexistent.yaml
    printf 'nodes: {cout: 1}\n' >c.yaml
    run muster topo --source spec:c.yaml
    status 2
    has "c.yaml:1: there is no key 'nodes.cout' (did you mean 'nodes.count'?)"
}

@test "topo: nvidia-smi and NCCL files, A01 A07 A09" {
    run muster topo --source "smi:$SRC/tests/cases/a01_topo_pair_down.txt"
    status 0
    has 'the NVLink between GPU 2 and GPU 3 is down: 4 of 6 links are up on each'
    run muster topo --source "ncclxml:$SRC/tests/cases/a07_vm_flat.xml"
    status 0
    has 'flat; affinity unknown: 8 of 8 GPUs'
    run muster topo --source "ncclxml:$SRC/tests/cases/a09_h100_four_switches.xml"
    status 0
    has 'gpu 1: 16 NVLinks are up, 18 on its like beside it (2 short, fewest to 0000:08:00.0)'
    sh "$SRC/tests/trees/make.sh" vm "$T/vm"
    run muster topo --source "sysfs:$T/vm" --source "smi:$SRC/tests/cases/recorded/smi_topo_2xh200.txt"
    status 0
    has 'node h200-vm'
    has 'gpu   1 0000:00:07.0 NVIDIA H200, memory unknown, NUMA 0, 18 NVLinks to gpu:0'
    run muster topo --source "smi:$SRC/README.md"
    [ "$status" -ne 0 ]
}

@test "topo: B09: what Slurm's topology.conf must not hold is one line and status 2" {
    for bad in bad_child bad_dup_node bad_cycle bad_dup_switch empty; do
        run muster topo --source "slurmconf:$SRC/tests/cases/b09_topology_$bad.conf"
        status 2
        [ "${#lines[@]}" -eq 1 ]
        has "b09_topology_$bad.conf:"
    done
    run muster topo --source "slurmconf:$SRC/tests/cases/b09_topology_two_roots.conf"
    status 0
    has '2 unconnected switches at the top (fabA,fabB): no job may span them'
}

@test "topo: B10: blocks, and NVLink domains that are smaller" {
    run muster topo --source "slurmconf:$SRC/tests/cases/b10_block.conf" \
        --source "cliques:$SRC/tests/cases/b10_cliques.tsv"
    status 0
    has '  11111111-2222-3333-4444-555555555555.2: gb[019-020]'
    has '  r02: gb[019-036]'
    has 'warn  r03: the block has 14 nodes, short of the base size 18'
    has 'warn  r02: the block is no single NVLink domain: gb[019-020]; gb[021-024] are apart'
}

@test "topo: Slurm's files come out as they went in" {
    for f in b09_topology_good b09_topology_two_roots b10_block; do
        for format in slurm-conf slurm-yaml; do
            muster topo --source "slurmconf:$SRC/tests/cases/$f.conf" --format $format >out.$format
            muster topo --source "slurmconf:$SRC/tests/cases/$f.conf" --json |
                jq -S 'del(.source, .findings) | del(.fabric.switches[].link_speed)' >want
            muster topo --source "slurmconf:out.$format" --json |
                jq -S 'del(.source, .findings) | del(.fabric.switches[].link_speed)' >got
            cmp want got
        done
    done
    grep LinkSpeed=400 <<<"$(muster topo --source "slurmconf:$SRC/tests/cases/b09_topology_good.conf" --format slurm-conf)"
}

@test "topo: a described cluster as Slurm's topology" {
    run muster topo --source "spec:$SRC/recipes/clusters/h200-16x8.yaml" --format slurm-conf
    status 0
    has '(simulated: described, not looked at)'
    has '# leafset0 stands for leaf0-rail[0-7]'
    run muster topo --source "spec:$SRC/recipes/clusters/laptop.yaml" --format slurm-yaml
    status 1
    has 'knows no switch that a node hangs on'
}

# shown WANT: Slurm shows the topology of that file, at once or soon
shown()
{
    muster topo --source "slurmconf:$1" --json | jq -S '.fabric, .nodes' >want
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        timeout 20 scontrol show topology >shown &&
            muster topo --source slurmconf:shown --json | jq -S '.fabric, .nodes' >got &&
            cmp -s want got && return 0
        sleep 0.3
    done
    diff want got
}

@test "topo: what Slurm shows is what it was given, and it reads what muster writes" {
    lab="$T/lab"
    sh "$SRC/tests/lab/slurm.sh" start 8 "$lab" || skip 'no Slurm lab here (tests/lab/slurm.sh deps)'
    eval "$(sh "$SRC/tests/lab/slurm.sh" env "$lab")"
    printf 'SwitchName=a1 Nodes=n[1-2]\nSwitchName=a2 Nodes=n[3-8]\nSwitchName=t Switches=a[1-2]\n' >new.conf
    ok=0
    shown "$lab/topology.conf" &&
        muster topo --source slurmconf:new.conf --format slurm-conf >"$lab/topology.conf" &&
        timeout 20 scontrol reconfigure && shown new.conf && ok=1
    sh "$SRC/tests/lab/slurm.sh" stop "$lab"
    [ $ok -eq 1 ]
}

@test "topo: B12: ibnetdiscover without a switch is no topology" {
    run muster topo --source "ibnet:$SRC/tests/cases/b12_ibnetdiscover_ca_only.txt"
    status 3
    has 'no switches found: only the local adapter answered'
    [ "${#lines[@]}" -eq 1 ]
    muster topo --source "ibnet:$SRC/tests/cases/b12_ibnetdiscover_ca_only.txt" --json >out.json 2>/dev/null || true
    [ ! -s out.json ]
}

@test "topo: ibnetdiscover joins by GUID, whatever the ports call themselves" {
    {
        printf 'Switch\t65 "S-0000000000001000"\t\t# "MF0;leaf0:MQM9701/U1" lid 7\n'
        for i in 0 1 2 3; do
            printf '[%d]\t"H-000000000000900%d"[1](900%d) \t\t# "localhost mlx5_0" lid 1 4xNDR\n' $i $i $i
        done
        echo
    } >fab
    run muster topo --source ibnet:fab
    status 0
    has 'node ca-[0000000000009000-0000000000009003] (4 alike)'
    jq -n '{schema: "muster/topo/1", source: "hosts", nodes: [{name: "gn07", nics: [{name: "mlx5_0",
        guid: "0x0000000000009002", kind: "compute"}]}]}' >hosts.json
    for order in "ibnet:fab json:hosts.json" "json:hosts.json ibnet:fab"; do
        # shellcheck disable=SC2086 # two words
        set -- $order
        run muster topo --source "$1" --source "$2"
        status 0
        has 'node gn07'
        has 'nic   mlx5_0 infiniband 400 Gb/s, compute, up, NUMA unknown, leaf leaf0, guid 0x0000000000009002'
        has '3 adapters of the fabric are in no node that is known here (by GUID), 1 are'
        lacks 'node ca-'
    done
}

@test "topo: NCCL's file of a node, and a folder of them" {
    sh "$SRC/tests/trees/make.sh" hgx "$T/hgx"
    muster topo --source "sysfs:$T/hgx" --format nccl-xml --output a.xml
    grep -q '<system version="1">' a.xml
    run muster topo --source ncclxml:a.xml
    status 0
    has 'gpu   4 0000:9a:10.0'
    jq '.nodes[0].name = "n2" | .nodes[0].boot_id = ""' <<<"$(muster topo --source "sysfs:$T/hgx" --json)" >n2.json
    run muster topo --source "sysfs:$T/hgx" --source json:n2.json --format nccl-xml
    status 2
    has 'there are 2 here: choose one with --node, or write all with --output FOLDER'
    muster topo --source "sysfs:$T/hgx" --source json:n2.json --format nccl-xml --output all
    cmp all/hgx01.xml a.xml
    cmp all/n2.xml a.xml
    muster topo --source "sysfs:$T/hgx" --source json:n2.json --format nccl-xml --node n2 | cmp - a.xml
    run muster topo --source "sysfs:$T/hgx" --node hgx1
    status 2
    has "no node 'hgx1' among the 1 (did you mean 'hgx01'?)"
    run muster topo --source "spec:$SRC/recipes/clusters/laptop.yaml" --format nccl-xml --output b.xml
    status 1
    [ ! -e b.xml ] && [ ! -e b.xml.part ]
    run muster topo --source "sysfs:$T/hgx" --output nowhere/x
    status 3
    has 'nowhere/x'
}

@test "topo: 64 nodes: equal ones once, odd ones by what is odd, findings by host list" {
    muster topo --source "spec:$SRC/recipes/clusters/b200-64x8.yaml" --json | jq '
        (.nodes[].driver) = "570.86.10" | (.nodes[9:14][].driver) = "550.54.15" |
        (.nodes[20,21,40].gpus[3].nvlinks[0].count) = 17 | .nodes[50].nics[2].up = 0 |
        .nodes[51].nics[2].gbits_per_s = 200 | .nodes[33].nics[1].leaf = 12 |
        (.fabric.links[] | select(.from == 8 and .to > 19) | .count) = 1' >odd.json
    run muster topo --source json:odd.json
    status 0
    has 'node b200-[01-09,15-20,23-40,42-50,53-64] (54 alike)'
    has 'node b200-[10-14] (5 alike)'
    has '  as b200-01, but for'
    has 'leaf1-rail0: rail 0, 32 NICs of b200-[33-64], 20 cables up'
    has 'findings: 6 fail, 2 warn, 0 note'
    has 'fail  b200-[21-22,41] gpu 3: 17 NVLinks are up, 18 on its like beside it (1 short)'
    has 'fail  b200-34 mlx5_1: miswired: rail 1, but leaf leaf1-rail4 carries rail 4'
    has 'warn  leaf1-rail0: the leaf has 20 cables upward, most of the 16 leaves have 32'
    has 'warn  5 nodes: not like the other 59 in GPU driver: 550.54.15 on b200-[10-14]'
    sed '/^findings/,$d' <<<"$output" >tree
    [ "$(wc -L <tree)" -le 100 ]
    [ "$(wc -l <tree)" -le 80 ]
}

@test "topo: the fabric here: no adapter is missing, status 3, and names the cure" {
    ! grep -qs InfiniBand /sys/class/infiniband/*/ports/1/link_layer || skip "there is one"
    run muster topo --source ibnet
    status 3
    has 'no InfiniBand adapter here'
    has 'ibnet:FILE'
}

# 4 adapters, 2 switches with two cables between them; each end lists its ports.
fabric_file()
{
    for w in 1 2; do
        printf 'Switch\t8 "Switch%d"\n' $w
        printf '[%d]\t"Hca%d"[1]\n' 1 $w 2 $((w + 2))
        printf '[%d]\t"Switch%d"[%d]\n' 3 $((3 - w)) 3 5 $((3 - w)) 5
        echo
    done
    for h in 1 2 3 4; do
        printf 'Hca\t2 "Hca%d"\n[1]\t"Switch%d"[%d]\n\n' $h $(((h + 1) % 2 + 1)) $(((h + 1) / 2))
    done
}

@test "topo: libibnetdisc walks a simulated fabric" {
    sim=$(ls /usr/lib/*/umad2sim/libumad2sim.so 2>/dev/null) && command -v ibsim >/dev/null || skip 'no ibsim'
    muster agent ibnet 2>&1 | grep -q 'built without' && skip 'built without libibnetdisc'
    [ ! -e /dev/infiniband ] || skip 'there is a real one'
    fabric_file >net
    mkfifo in
    ibsim -s net <in >log 2>&1 3>&- &
    pid=$!
    exec 4>in # it ends with its input
    end=$((SECONDS + 30))
    until SIM_HOST=Hca1 LD_PRELOAD=$sim timeout 20 muster agent ibnet >walk 2>words || [ $SECONDS -gt $end ]; do
        sleep 0.2
    done
    exec 4>&-
    kill $pid || true
    wait $pid || true
    run muster topo --source ibnet:walk
    status 0
    has 'leaf  2: Switch1 .. Switch2'
    has 'links 1 between switches, 2 cables of 10 Gb/s'
    has 'Switch1: 2 NICs of'
}
