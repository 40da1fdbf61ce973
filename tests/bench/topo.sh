#!/bin/sh
# topo.sh [PART]... - how long `muster topo` takes, and how much memory, on large clusters.
#   ibnet   ibnetdiscover's text of NODES (1250 2500 5000) nodes of 8 adapters, a fat tree of
#           three levels of 64-port switches
#   spec    described clusters of SIZES (2048 12500) nodes of 8 GPUs and 8 NICs: every format,
#           JSON loaded back, a second source merged in
# O: build folder (build).  Seconds are of the processor (user and system) and of the wall.
set -eu
cd "$(dirname "$0")/../.." || exit 4
O=${O:-build} NODES=${NODES:-1250 2500 5000} SIZES=${SIZES:-2048 12500}
[ $# -gt 0 ] || set -- ibnet spec
work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT

# timed WHAT OUT COMMAND... - a row of the table
timed()
{
    what=$1 out=$2
    shift 2
    command time -o "$work/time" -f '%U %S %e %M' "$@" >"$out"
    awk -v what="$what" '{ printf "| %s | %.2f | %.2f | %.0f |\n", what, $1 + $2, $3, $4 / 1024 }' \
        "$work/time"
}

head_of()
{
    printf '\n| %s | CPU s | wall s | MiB |\n|---|---|---|---|\n' "$1"
}

# Leaf l has the adapters of rail l % 8 of 32 nodes; 32 leaves make a pod, with 32 spines;
# spine s of every pod is joined to core switches 32 s to 32 s + 31.
fabric()
{
    awk -v nodes="$1" '
    function guid(kind, i) { return sprintf("%s%015x", kind, i) }
    function port(p, q, peer, name, lid)
    {
        printf "[%d]\t\"%s\"[%d]\t\t# \"%s\" lid %d 4xNDR\n", p, peer, q, name, lid
    }
    function open(what, n, id, name)
    {
        printf "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x%s\n", substr(id, 3)
        printf "%s=0x%s(%s)\n", what == "Ca" ? "caguid" : "switchguid", substr(id, 3), substr(id, 3)
        printf "%s\t%d \"%s\"\t\t# \"%s\"\n", what, n, id, name
    }
    function leaf(n, r) { return int(n / 32) * 8 + r }
    BEGIN {
        leaves = int((nodes + 31) / 32) * 8
        pods = int((leaves + 31) / 32)
        print "# Topology file: generated"
        for (l = 0; l < leaves; l++) {
            printf "\n"
            open("Switch", 64, "S-" guid("a", l), "MF0;leaf" l ":MQM9700/U1")
            for (k = 0; k < 32; k++) {
                n = int(l / 8) * 32 + k
                if (n < nodes)
                    port(k + 1, 1, "H-" guid("c", n * 8 + l % 8), "gn" n " mlx5_" l % 8, 1)
                port(33 + k, 1 + l % 32, "S-" guid("b", int(l / 32) * 32 + k), "MF0;spine:MQM9700/U1", 2)
            }
        }
        for (s = 0; s < pods * 32; s++) {
            printf "\n"
            open("Switch", 64, "S-" guid("b", s), "MF0;spine" s ":MQM9700/U1")
            for (k = 0; k < 32; k++) {
                l = int(s / 32) * 32 + k
                if (l < leaves)
                    port(k + 1, 33 + s % 32, "S-" guid("a", l), "MF0;leaf" l ":MQM9700/U1", 3)
                port(33 + k, 1 + int(s / 32), "S-" guid("d", (s % 32) * 32 + k), "MF0;core:MQM9700/U1", 4)
            }
        }
        for (n = 0; n < nodes; n++)
            for (r = 0; r < 8; r++) {
                printf "\n"
                open("Ca", 1, "H-" guid("c", n * 8 + r), "gn" n " mlx5_" r)
                printf "[1](%s) \t\"S-%s\"[%d]\t\t# lid 5 lmc 0 \"MF0;leaf%d:MQM9700/U1\" lid 1 4xNDR\n",
                    guid("c", n * 8 + r), guid("a", leaf(n, r)), n % 32 + 1, leaf(n, r)
            }
    }'
}

ibnet()
{
    head_of 'ibnetdiscover text'
    for n in $NODES; do
        fabric "$n" >"$work/ibnet.txt"
        size=$(($(wc -c <"$work/ibnet.txt") / 1000000))
        timed "$n nodes, $((n * 8)) adapters, $size MB: read, looked at, shown" "$work/text" \
            "$O/bin/muster" topo --source "ibnet:$work/ibnet.txt"
    done
    sed -n 1p "$work/text"
}

spec()
{
    for n in $SIZES; do
        cat >"$work/spec.yaml" <<YAML
nodes: {count: $n, prefix: n}
cpu: {model: x, sockets: 2, cores: 96, threads: 192, numa_nodes: 2, memory: 2TiB}
gpus: {per_node: 8, name: NVIDIA B200, memory: 180GiB, sm: 100, nvlinks: 18, nvlink_gbytes_per_s: 900, pcie_gbytes_per_s: 50}
nics: {per_node: 8, gbits_per_s: 400}
fabric: {leaves: rail, nodes_per_leaf: 32, spines: 16, cables: 2}
YAML
        head_of "$n nodes, $((n * 8)) GPUs, simulated"
        for format in text slurm-conf slurm-yaml hca svg json; do
            timed "described, to $format" "$work/$format" \
                "$O/bin/muster" topo --source "spec:$work/spec.yaml" --format $format
        done
        timed "from JSON ($(($(wc -c <"$work/json") / 1000000)) MB) to JSON" "$work/again" \
            "$O/bin/muster" topo --source "json:$work/json" --json
        cmp "$work/json" "$work/again"
        awk -v n="$n" -v w="${#n}" 'BEGIN { for (i = 1; i <= n; i++) printf "n%0*d 0d3f8a2e-0000-4000-8000-000000000000.%d\n", w, i, i / 18 }' >"$work/cliques"
        timed "JSON and the NVLink domains of all nodes merged, to text" "$work/again" \
            "$O/bin/muster" topo --source "json:$work/json" --source "cliques:$work/cliques"
    done
}

for part; do
    case $part in
    ibnet | spec) "$part" ;;
    *) echo "topo.sh: no part '$part'" >&2; exit 2 ;;
    esac
done
