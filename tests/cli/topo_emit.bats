load lib

@test "topo: NCCL_IB_HCA for a job's script" {
    sh "$SRC/tests/trees/make.sh" hgx "$T/hgx"
    eval "$(muster topo --source "sysfs:$T/hgx" --format hca)"
    [ "$NCCL_IB_HCA" = '=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1' ]
    run muster topo --source "sysfs:$T/hgx" --format hca
    has '#   mlx5_8: '
    eval "$(muster topo --source "spec:$SRC/recipes/clusters/h200-16x8.yaml" --format hca)"
    [ "${NCCL_IB_HCA:0:21}" = '=mlx5_0::0,mlx5_1::1,' ]
    run muster topo --source "smi:$SRC/tests/cases/recorded/smi_topo_2xh200.txt" --format hca
    status 1
    has 'no node has a compute HCA'
}

@test "topo: a picture is well-formed XML" {
    sh "$SRC/tests/trees/make.sh" hgx "$T/hgx"
    command -v python3 >/dev/null || skip "no python3 to read XML with"
    for source in "sysfs:$T/hgx" "spec:$SRC/recipes/clusters/b200-64x8.yaml" \
        "smi:$SRC/tests/cases/a01_topo_pair_down.txt" "slurmconf:$SRC/tests/cases/b10_block.conf"; do
        muster topo --source "$source" --format svg --output a.svg
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' a.svg
    done
}
