# cluster.device: sim - ranks that keep time and compute nothing.
load lib

recipe()
{
    cat >sim.yaml <<'Y'
name: sim
model: {preset: qwen3-30b-a3b}
training: {seq_len: 4096, local_batch_size: 2, steps: 4, log_interval: 1}
parallelism: {data_parallel_shard_degree: 8, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {device: sim}
Y
}

sim() { recipe; run env MUSTER_SIM="time=0.01,$1" muster launch sim.yaml --gpus "${@:2}"; }

@test "sim: 64 and 128 ranks step, and everything says that they are simulated" {
    for n in 64 128; do
        sim seed=3 $n
        status 0
        has 'simulated step 4  loss'
        has "is done, $n ranks; simulated; 4 steps"
    done
    sim seed=3 8 --json --quiet
    status 0
    has '"simulated": true'
    grep -q '"event": *"step".*"simulated": *true' "$MUSTER_HOME"/runs/*/events.jsonl
}

@test "sim: runs, report and plan mark what is simulated, from the start and when it fails" {
    recipe
    MUSTER_SIM=time=0.001,crash=3@2 muster launch sim.yaml --gpus 8 >out 2>&1 || true
    run muster runs
    has 'failed, simulated'
    run muster report
    has 'failed, 8 ranks; simulated: no figure here was measured'
    grep -q '"simulated": true' "$MUSTER_HOME"/runs/*/result.json
    MUSTER_SIM=time=50 muster launch sim.yaml --gpus 8 >out 2>&1 3>&- &
    pid=$!
    for _ in $(seq 100); do muster runs | grep -q running && break; sleep 0.1; done
    run muster runs
    has 'running, simulated'
    [ "$(muster runs --json | jq -c '[.runs[].simulated]')" = '[true,true]' ]
    muster stop last
    wait $pid || true
    muster launch --gpus 2 -- true
    [ "$(muster runs --json | jq -c '[.runs[].simulated]')" = '[false,true,true]' ]
    run muster plan sim.yaml --gpus 8
    has '(simulated)'
    has 'the ranks are simulated'
    [ "$(muster plan sim.yaml --gpus 8 --json | jq .simulated)" = true ]
}

@test "sim: the same seed makes the same numbers, another seed others" {
    for seed in 5 5 6; do
        sim seed=$seed 8 --quiet
        status 0
        echo "${output##*steps; }" | sed 's/;[^;]*$//' >>numbers
    done
    [ "$(sed -n 1p numbers)" = "$(sed -n 2p numbers)" ]
    [ "$(sed -n 1p numbers)" != "$(sed -n 3p numbers)" ]
}

@test "sim: ranks that crash, exit and leave are named" {
    sim crash=5@2 8
    status 139
    has 'rank 5 on'
    has 'signal 11'
    sim exit=3@3:7 8
    status 7
    has 'rank 3 on'
    sim leave=2@2 8
    status 1
    has 'rank 2 on'
}

@test "sim: a wedged rank is named by its silence, and ended" {
    sim wedge=6@2 8 --silence-timeout 3s --grace 1s
    status 5
    has 'no sign of life for 3 s: rank 6 on'
    if pgrep -f "$T/home"; then false; fi
}

@test "sim: a slow rank slows all" {
    sim slow=1@1:3 8 --quiet --json
    slow=$(sed -n 's/^  "step_s": \([0-9.]*\),*/\1/p' <<<"$output")
    sim seed=1 8 --quiet --json
    fast=$(sed -n 's/^  "step_s": \([0-9.]*\),*/\1/p' <<<"$output")
    awk -v a="$slow" -v b="$fast" 'BEGIN { exit !(a > 2.8 * b && a < 3.2 * b) }'
}

@test "sim: what does not fit, and what cannot be read, ends the run" {
    sim seed=1 8 --set training.local_batch_size=64 --set activation_checkpoint.mode=none
    status 1
    has 'simulated: out of memory'
    sim crahs=1@2 8
    status 2
    has "'crahs=1@2' is none of"
}

@test "sim: ranks that compute nothing start without OpenBLAS and MPI" {
    mkdir bin && cp "$O"/bin/muster "$O"/bin/muster-train bin # and no lib
    recipe
    run env MUSTER_SIM=time=0.01 bin/muster launch sim.yaml --gpus 8
    status 0
    has 'simulated step 4'
    run bin/muster launch sim.yaml --gpus 8 --no-check --set cluster.device=cpu --set model.preset=tiny
    status 3
    has "device 'cpu' needs OpenBLAS"
    has "$T/lib/muster-blas.so"
}
