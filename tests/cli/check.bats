# muster check: live over this machine's ranks, and over recordings.
load lib

recipe()
{
    cat >r.yaml <<-EOF
	model: {preset: tiny}
	training: {seq_len: 16, local_batch_size: 1, steps: 1, dtype: float32}
	parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: -1}
	data: {path: none/*.bin}
	cluster: {backend: local, device: cpu}
	checks: {level: quick}
	EOF
}

# verdicts NAME: result of each verdict of that name in the JSON object out.json
results()
{
    python3 -c 'import json,sys; print(*[v["result"] for v in json.load(open("out.json"))["verdicts"] if v["name"]==sys.argv[1]])' "$1"
}

@test "check: quick, 4 CPU ranks in 2 x 2: hosts, and results on the recipe's groups" {
    recipe
    muster check r.yaml --gpus 4 --json >out.json
    [ "$(results all_gather.result)" = 'pass pass' ]
    [ "$(results reduce_scatter.result)" = 'pass pass' ]
    [ "$(results all_reduce.result)" = 'pass pass' ]
    [ "$(results memory)" = pass ]
    [ -z "$(results all_gather)" ]
    python3 - <<-EOF
	import json
	o = json.load(open("out.json"))
	assert o["schema"] == "muster/check/1" and o["status"] == 0 and o["exclude"] == []
	objects = [v["object"] for v in o["verdicts"] if v["name"] == "all_reduce.result"]
	assert objects == ["replicate group, ranks 0, 2", "replicate group, ranks 1, 3"], objects
	for v in o["verdicts"]:
	    assert {"name", "object", "result", "expected", "measured", "unit", "reason"} <= v.keys()
	EOF
}

@test "check: standard measures bandwidth of every group against a computed target" {
    recipe
    muster check r.yaml --gpus 2 --level standard --json >out.json || [ $? -eq 1 ] # a busy machine may be undecided
    python3 - <<-EOF
	import json
	rows = {v["name"]: v for v in json.load(open("out.json"))["verdicts"]}
	for name in "all_gather", "reduce_scatter":
	    v = rows[name]
	    assert v["unit"] == "GB/s" and v["measured"] > 0 and v["expected"] > 0, v
	    assert "memory copies" in v["reason"] or "busy" in v["reason"], v
	assert rows["all_reduce"]["measured"] == 0 and rows["all_reduce"]["result"] == "pass"
	EOF
}

@test "check: its events replay to the same verdicts" {
    recipe
    muster check r.yaml --gpus 2 --json >live.json
    muster check --replay "$MUSTER_HOME"/runs/*/events.jsonl --json >again.json
    cmp live.json again.json
}

@test "check: one rank has nobody to exchange with" {
    recipe
    run muster check r.yaml --gpus 1 --set parallelism.data_parallel_shard_degree=1 --level standard
    status 0
    has 'groups of one rank: nothing to exchange'
}

@test "check: --replay names the slow NIC, not the node's mean (D04)" {
    run muster check --replay "$SRC/tests/cases/d04_rails.tsv"
    status 1
    has 'gn01 mlx5_3'
    has '13.2 of 400 Gb/s'
    has '240.3 of 400 Gb/s'
    has '6 passed, 2 failed'
    has 'exclude: gn01,gn02'
}

@test "check: --replay of a task's limits (C07)" {
    run muster check --replay "$SRC/tests/cases/c07_limits.txt"
    status 1
    has 'LimitMEMLOCK=infinity'
    has '65536 bytes'
    has 'pass (!)'
}

@test "check: a rank that fails is named, and what was not reached is unmeasured" {
    recipe
    mkdir bin
    cp "$O/bin/muster" bin/
    cat >bin/muster-probe <<-EOF
	#!/bin/sh
	[ "\$RANK" = 1 ] && { echo 'device is on fire' >&2; exit 9; }
	exec "$O/bin/muster-probe" "\$@"
	EOF
    chmod +x bin/muster-probe
    run bin/muster check r.yaml --gpus 2
    status 1
    has 'rank 1 on'
    has 'device is on fire'
    has 'the probe ended before'
}

@test "check: --list, wrong use, missing things" {
    run muster check --list
    status 0
    has 'LimitMEMLOCK'
    run muster check
    status 2
    has 'RECIPE or --hosts is missing, and this is no Slurm allocation'
    run muster check r.yaml --levle quick
    status 2
    has "did you mean '--level'"
    recipe
    run muster check r.yaml --level thorough
    status 2
    run muster check r.yaml --gpus 3
    status 2
    run muster check --replay nothing.jsonl
    status 3
    printf 'gn01 mlx5_0 fast 400 Gb/s\n' >bad.tsv
    run muster check --replay bad.tsv
    status 2
    has 'bad.tsv:1'
    run muster check r.yaml --gpus 16 --cluster "$SRC/recipes/clusters/h200-16x8.yaml"
    status 3
    has 'not here'
}
