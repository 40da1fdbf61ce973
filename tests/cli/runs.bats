# muster runs, logs, report, stop.
load lib

# json FILE EXPRESSION: of the object in FILE, called o
json() { python3 -c "import json; o = json.load(open('$1')); print(($2))"; }

newest() { muster runs --all | awk 'NR == 2 { print $1 }'; }

# start COMMAND...: in the background; returns when its run is known
start()
{
    muster launch --gpus 2 -- "$@" >launch.txt 2>&1 3>&- &
    pid=$!
    for _ in $(seq 100); do muster runs | grep -q running && break; sleep 0.1; done
}

@test "runs: nothing yet" {
    run muster runs
    status 0
    has 'nothing ran yet'
    run muster report
    status 3
    run muster logs
    status 3
    muster runs --json >o
    [ "$(json o 'o["schema"], o["runs"], o["climbs"]')" = "('muster/runs/1', [], [])" ]
}

@test "runs: a run is listed with its end, and its output is kept whole" {
    run muster launch --gpus 2 -- sh -c 'echo "rank $RANK says"; echo err >&2; printf half; exit $((RANK * 3))'
    status 3
    run muster runs
    has 'failed'
    id=$(newest)
    muster runs --json >o
    [ "$(json o 'o["runs"][0]["status"], o["runs"][0]["world"], o["runs"][0]["cause"]')" = "(3, 2, 'rank')" ]
    run muster logs
    status 0
    has ':0: rank 0 says'
    has ':1: rank 1 says'
    has ':0: half'
    run muster logs "$id" --rank 1
    status 0
    has ':1: rank 1 says'
    lacks ':0: '
    run muster logs "$id" --rank 2
    status 3
    has 'it has ranks 0 to 1'
    run muster report "$id"
    status 0
    has "$id: failed"
    has 'rank 1'
}

@test "runs: a rank that says nothing has no file, and no output is no error" {
    muster launch --gpus 4 -- sh -c 'test $RANK != 2 || echo me'
    [ "$(cd "$MUSTER_HOME"/runs/*/ranks && echo *)" = "$(hostname).2.log" ]
    run muster logs --rank 1
    status 0
    [ -z "$output" ]
    muster launch --gpus 2 -- true
    run muster logs
    status 0
    [ -z "$output" ]
}

@test "runs: --follow ends with the run" {
    start sh -c 'for i in 1 2 3 4 5; do echo "line $i of $RANK"; sleep 0.2; done'
    run timeout 20 muster logs --follow
    status 0
    [ "$(grep -c 'line 5 of' <<<"$output")" -eq 2 ]
    [ "$(grep -c 'line 1 of' <<<"$output")" -eq 2 ]
    wait $pid
}

@test "stop: ends a running run, and says what it was told" {
    start sleep 100
    id=$(newest)
    run muster stop "$id"
    status 0
    has "$id: stopped"
    code=0
    wait $pid || code=$?
    [ $code -ne 0 ]
    run muster stop "$id"
    status 1
    has 'is not running: stopped'
    run muster stop
    status 2
    run muster stop nothing
    status 3
    has "no run or climb 'nothing'"
}

@test "runs: a muster that was killed leaves a run that says so" {
    start sleep 100
    # the launcher is the guardian's child: kill both, as the kernel would
    kill -9 $(pgrep -P $pid) $pid
    wait $pid || true
    for _ in $(seq 100); do muster runs | grep -q lost && break; sleep 0.1; done
    run muster runs
    has 'lost'
    run muster report
    has 'ended without a word'
}

@test "report: a training run, and two beside each other (G03)" {
    cat "$SRC/LICENSE" >text.txt
    muster data pack -o text.bin text.txt >/dev/null
    cat >r.yaml <<END
name: tiny
model: {preset: tiny}
training: {seq_len: 32, global_batch_size: 4, steps: 6, dtype: float32}
data: {path: "$T/text.bin"}
cluster: {backend: local, device: cpu}
END
    for n in 1 2; do muster launch r.yaml --no-check --gpus $n >/dev/null 2>&1; done
    ids=$(muster runs | awk 'NR > 1 { print $1 }' | tac)
    run muster report $ids
    status 0
    has 'model    tiny'
    has 'loss     5.'
    has 'strong scaling, '
    has 'of its tokens/s/GPU'
    muster report $ids --json >o
    [ "$(json o 'len(o["runs"][0]["steps"]), o["comparison"][0]["comparison"]')" = "(6, 'strong scaling')" ]
    muster launch r.yaml --no-check --gpus 1 --set training.steps=3 >/dev/null 2>&1
    run muster report ${ids%%$'\n'*} last
    has 'not comparable: training.steps 6 and 3'
}
