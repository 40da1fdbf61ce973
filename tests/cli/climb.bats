# muster climb: sweep, refuse, verify, resume.  Cases E10 (sweeps) and G03 (labels).
load lib

# recipe [YAML LINE]...: a tiny model on text of its own; lines go under scale:
recipe()
{
    [ -e text.bin ] || {
        cat "$SRC/LICENSE" >text.txt
        muster data pack -o text.bin text.txt >/dev/null
    }
    cat >r.yaml <<END
name: tiny
model: {preset: tiny}
training: {seq_len: 32, global_batch_size: 4, dtype: float32}
parallelism: {data_parallel_shard_degree: 1, data_parallel_replicate_degree: -1}
data: {path: "$T/text.bin"}
cluster: {backend: local, device: cpu}
checkpoint: {folder: saved}
scale:
  rungs: [1, 2]
  trial_steps: 4
  trial_warmup: 1
END
    printf '  %s\n' "$@" >>r.yaml
}

sweep='sweep: {activation_checkpoint.mode: [none, full], training.local_batch_size: [1, 2, 4]}'

# json EXPRESSION: of the object in out.json, called o
json() { python3 -c "import json; o = json.load(open('out.json')); print(($1))"; }

@test "climb: sweeps, refuses with reasons, verifies, prints the ladder" {
    recipe "$sweep"
    run muster climb r.yaml
    status 0
    has 'refused: at 2 ranks: global batch 4 is not a multiple of local batch 4 x 2 ranks = 8'
    has 'winner:'
    has 'ladder (strong scaling: the same global batch at every rung)'
    has 'of perfect %'
}

@test "climb: the JSON holds what scripts rely on, and report tells the same" {
    recipe "$sweep" 'batch: per_gpu'
    muster climb r.yaml --json >out.json
    [ "$(json 'o["schema"]')" = muster/climb/1 ]
    [ "$(json '[r["gpus"] for r in o["rungs"]]')" = '[1, 2]' ]
    [ "$(json 'all(r["tokens_per_s_per_gpu"] > 0 and r["memory_percent"] > 0 for r in o["rungs"])')" = True ]
    [ "$(json 'o["rungs"][0]["efficiency"]')" = 1.0 ]
    [ "$(json '"mfu_reference" in o["rungs"][0] and o["rungs"][1]["predicted_tokens_per_s_per_gpu"] > 0')" = True ]
    [ "$(json 'o["scaling"], [r["global_batch_size"] for r in o["rungs"]]')" = "('weak', [4, 8])" ]
    [ "$(json 'len(o["trials"]), {t["state"] for t in o["trials"]}')" = "(6, {'measured'})" ]
    [ "$(json 'sorted(o["winner"])')" = "['activation_checkpoint.mode', 'training.local_batch_size']" ]
    [ "$(json 'max(t["tokens_per_s_per_gpu"] for t in o["trials"]) == o["rungs"][0]["tokens_per_s_per_gpu"]')" = True ]
    mv out.json climb.json
    muster report last --json >out.json
    [ "$(json 'o["climbs"][0] == json.load(open("climb.json"))')" = True ]
    # trials are runs, but plain `muster runs` leaves them out
    muster runs --json >out.json
    [ "$(json 'len(o["runs"]), len(o["climbs"])')" = '(0, 1)' ]
    muster runs --all --json >out.json
    [ "$(json 'len(o["runs"]) >= 7 and {r["climb"] for r in o["runs"]} == {o["climbs"][0]["id"]}')" = True ]
    # nothing of a trial is saved
    [ -z "$(find "$MUSTER_HOME" -name 'step-*')" ]
}

# endless MODE: a muster in bin/ whose trials with this activation_checkpoint.mode train on
# and on while the file endless is there
endless()
{
    mkdir bin && cp "$O/bin/muster" bin/ && ln -s "$O/lib" lib
    cat >bin/muster-train <<END
#!/bin/sh
if [ -e "$T/endless" ] && grep -qx ' *mode: $1' "\$2"; then
    sed '/^training:/,/^[a-z]/s/^  steps: .*/  steps: 1000000000/' "\$2" >"$T/endless.yaml"
    shift 2
    set -- --recipe "$T/endless.yaml" "\$@"
    touch "$T/trains"
fi
exec "$O/bin/muster-train" "\$@"
END
    chmod +x bin/muster-train
}

# trials_done ID: how many runs of the climb came to their end
trials_done()
{
    muster runs --all --json >out.json
    json "len([r for r in o['runs'] if r['climb'] == '$1' and r['state'] == 'done'])"
}

@test "climb: interrupted at any place, it goes on where it stopped" {
    recipe 'sweep: {activation_checkpoint.mode: [none, selective, full]}'
    endless selective
    for signal in TERM KILL; do
        rm -f trains
        touch endless
        bin/muster climb r.yaml >first.txt 2>&1 3>&- &
        pid=$!
        for _ in $(seq 1200); do [ -e trains ] && break; sleep 0.1; done
        kill -$signal $pid
        code=0
        wait $pid || code=$?
        [ $signal = KILL ] || [ $code -eq 143 ]
        grep -q 'mode none: ' first.txt
        # the trial that was running is gone, and all is written down
        for _ in $(seq 600); do pgrep -f "muster-train.*$T" >/dev/null || break; sleep 0.1; done
        run pgrep -f "muster-train.*$T"
        status 1
        id=$(muster runs | awk '/climb, stopped/ { print $1 }')
        [ "$(wc -w <<<"$id")" -eq 1 ]
        [ "$(trials_done "$id")" -eq 1 ]
        rm endless
        run bin/muster climb --resume "$id"
        status 0
        has 'ladder'
        # what was measured before is not measured again; +1: the second rung
        [[ $(grep -m1 'rank, mode' <<<"$output") == *'mode selective: '* ]]
        has 'measured'
        done=$(trials_done "$id")
        muster report "$id" --json >out.json
        [ "$(json 'sum(t["attempts"] for t in o["climbs"][0]["trials"]) + 1')" -eq "$done" ]
    done
    run muster climb --resume "$id"
    status 1
    has "$id is done"
}

@test "climb: none left starts nothing and is a no" {
    recipe 'sweep: {parallelism.data_parallel_shard_degree: [2, 3]}'
    run muster climb r.yaml
    status 1
    has 'at 1 rank: shard degree 2 does not divide 1 rank'
    has 'no candidate is left: of 2, 2 were refused and 0 failed'
    run muster runs --all
    lacks 'done'
}

@test "climb: a trial that fails costs only itself" {
    recipe 'sweep: {training.seq_len: [32, 1048576]}'
    run muster climb r.yaml --rungs 1
    status 0
    has 'failed: '
    has 'training.seq_len=32'
}

@test "climb: --list, --rungs, --set; and what cannot be asked" {
    recipe "$sweep"
    run muster climb r.yaml --list --rungs 1
    status 0
    [ "$(grep -c '^may run' <<<"$output")" -eq 6 ]
    run muster climb r.yaml --list --rungs 2,1
    status 2
    has 'rungs must rise'
    run muster climb r.yaml --strategy predictd
    status 2
    has "did you mean 'predicted'?"
    run muster climb r.yaml --cluster "$SRC/recipes/clusters/h200-16x8.yaml"
    status 2
    has 'nothing can be measured'
    run muster climb
    status 2
    run muster climb r.yaml --resume x
    status 2
    run muster climb --resume nothing
    status 3
    run muster climb nothing.yaml
    status 3
}

@test "climb: memory that does not fit is refused before anything starts" {
    recipe 'sweep: {model.preset: [tiny, qwen3-30b-a3b]}' 'memory_ceiling: 0.9'
    run muster climb r.yaml --list --rungs 1
    status 0
    has 'of the memory of a rank, the ceiling is 90.0 %'
}
