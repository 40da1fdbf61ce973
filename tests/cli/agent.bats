# Several nodes through agents: PMIx between servers, output, endings.  The hosts are
# agents on this machine, which need root to have host names of their own.
load lib

# agents N COMMAND...: muster with N agents for N hosts, in a world of its own, so that
# what is left over is seen and goes with it
agents()
{
    local n=$1
    shift
    [ "$(id -u)" = 0 ] || skip 'needs root'
    MUSTER_TEST_LOCAL_AGENTS=$n timeout 100 unshare -pf --mount-proc "$@"
}

# The same, then wait until nothing but this shell is left in that world, and list what is.
# The shell itself reads the folder: a pipe of its own would be seen there.
alone='"$@"; rc=$?; for i in $(seq 300); do set -- /proc/[0-9]*; [ $# = 1 ] && break; sleep 0.05; done
    echo "left $(($# - 1))"
    [ $# = 1 ] || for p; do echo "$p: $(tr "\0" " " <$p/cmdline) $(grep -E "^(State|PPid)" $p/status | tr -s "\n\t" " ")"; done
    exit $rc'

@test "agent: ranks on two hosts know their places" {
    run agents 2 muster launch --gpus 4 -- sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $(hostname)'
    status 0
    has 'n1:0: 0 4 0 2 0 n1'
    has 'n1:1: 1 4 1 2 0 n1'
    has 'n2:2: 2 4 0 2 1 n2'
    has 'n2:3: 3 4 1 2 1 n2'
    has 'is done, 4 ranks'
}

@test "agent: 2x2, 4x2 and 16x8 ranks meet" {
    for n in '2 4' '4 8' '16 128'; do
        run agents ${n% *} muster launch --gpus ${n#* } -- pmix_hello
        status 0
        has "n1:0: ${n#* } ranks have met"
    done
}

# Nobody leaves a fence before the last one has come.
barrier()
{
    awk '$2 == "fence" { n++; if (!($3 in last) || $4 > last[$3]) last[$3] = $4
                         if (!($3 in first) || $5 < first[$3]) first[$3] = $5 }
         END { for (k in last) if (first[k] < last[k]) { print "fence " k " is no barrier"; bad = 1 }
               print n " passages"; exit bad }' <<<"$1"
}

@test "agent: a fence is a barrier, with and without data; data goes the direct way" {
    for n in '2 4' '3 12'; do
        run agents ${n% *} muster launch --gpus ${n#* } -- pmix_fence 6
        status 0
        [ "$(grep -c ': right$' <<<"$output")" -eq ${n#* } ]
        run barrier "$output"
        status 0
        has "$((${n#* } * 6)) passages"
    done
}

@test "agent: an Open MPI program over two hosts" {
    run agents 2 muster launch --gpus 4 -- mpi_hello
    status 0
    [ "$(grep -c 'of 4: ring ok, sum 6' <<<"$output")" -eq 4 ]
}

@test "agent: training over two hosts gives the losses of one, bit for bit" {
    cat "$SRC/LICENSE" "$SRC"/trainer/*.h >text.txt
    muster data pack -o text.bin text.txt >/dev/null
    cat >tiny.yaml <<-END
	name: tiny
	model: {preset: tiny}
	parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: 2}
	optimizer: {lr: 3e-3}
	lr_scheduler: {warmup_steps: 2}
	cluster: {device: cpu}
	training: {seq_len: 32, local_batch_size: 1, global_batch_size: 4, steps: 20, dtype: float32, log_interval: 1}
	data: {path: text.bin, eod_token: 256}
	END
    for n in '' 2; do
        [ -n "$n" ] || MUSTER_HOME=$T/local muster launch tiny.yaml --gpus 4 --no-check -q
        [ -z "$n" ] || MUSTER_HOME=$T/two agents $n muster launch tiny.yaml --gpus 4 --no-check -q
    done
    for d in local two; do
        cat "$T/$d"/runs/*/events.jsonl | python3 -c '
import json, sys
for line in sys.stdin:
    e = json.loads(line)
    if e["event"] == "step" and e["rank"] == 0:
        print(e["step"], repr(e["loss"]), repr(e["grad_norm"]))' >$d.steps
    done
    [ "$(wc -l <two.steps)" -eq 20 ]
    cmp local.steps two.steps
    grep -q '"node": *"n2"' "$T"/two/runs/*/plan.json
}

@test "C15: the environment and the arguments arrive byte for byte" {
    export X='a b;c"d,e' Y=é Z=
    run agents 2 muster launch --gpus 4 -- sh -c 'printf "<%s>" "$X" "$Y" "${Z-unset}" "$@"; echo' sh "--out=a b'c\"d\$HOME" '*' '' -x
    status 0
    for at in n1:0 n2:2; do
        has "$at: <a b;c\"d,e><é><><--out=a b'c\"d\$HOME><*><><-x>"
    done
}

@test "C18: lines of several hosts stay whole" {
    run agents 2 muster launch --gpus 4 -- sh -c 'i=0; while [ $i -lt 500 ]; do printf "%s-%0120d" $RANK $i; printf "%0120d\n" $i; i=$((i + 1)); done; printf last'
    status 0
    [ "$(grep -cE '^n[12]:([0-3]): \1-0{117}[0-9]{3}0{117}[0-9]{3}$' <<<"$output")" -eq 2000 ]
    [ "$(grep -cE '^n[12]:[0-3]: last$' <<<"$output")" -eq 4 ]
}

@test "agent: the first rank that failed is named with its host; the others are ended" {
    run agents 2 sh -c "$alone" sh muster launch --gpus 4 -- sh -c 'if [ $RANK = 2 ]; then echo "disk is full" >&2; exit 7; fi; sleep 60'
    status 7
    has 'rank 2 on n2 ended with status 7; its last words: disk is full'
    has 'left 0'
}

@test "agent: a program that is not there is named with its rank, and nothing runs" {
    run agents 2 sh -c "$alone" sh muster launch --gpus 4 -- sh -c 'exit 0' 
    status 0
    printf '#!/no/such/interpreter\n' >script
    chmod +x script
    run agents 2 sh -c "$alone" sh muster launch --gpus 4 -- ./script
    status 3
    has 'cannot start ./script'
    has 'left 0'
}

@test "agent: grandchildren with sessions of their own are ended" {
    run agents 2 sh -c "$alone" sh muster launch --gpus 4 -- sh -c 'setsid sh -c "trap : TERM; sleep 60; sleep 60" & echo started'
    status 0
    has 'left 0'
}

@test "C20: a rank that never meets is named over hosts" {
    run agents 2 muster launch --gpus 4 --start-timeout 3s --grace 1s -- pmix_hello late 3
    status 5
    has '1 of 4 ranks did not arrive at PMIx_Init within 3 s: rank 3 on n2'
}

# kill WHAT of node n2 while the ranks sleep; $2 is a signal
kill_during()
{
    printf '%s\n' '#!/bin/sh' \
        'muster launch --gpus 4 --grace 2s -- sh -c "echo up; trap : TERM; sleep 50; sleep 50" >out 2>&1 &' \
        'for i in $(seq 200); do [ "$(grep -c "up$" out)" = 4 ] && break; sleep 0.05; done' \
        "what=\$($1)" \
        'echo "killing $what"' \
        "kill -$2 \$what" \
        'start=$(date +%s)' \
        'wait $!; rc=$?' \
        'echo "after $(($(date +%s) - start)) s"; cat out; exit $rc' >during
    run agents 2 sh -c "$alone" sh sh during
    echo "$output"
    took=$(sed -n 's/^after \([0-9]*\) s$/\1/p' <<<"$output")
    [ "$took" -le 15 ]
    has 'left 0'
}
worker='pgrep -P $(pgrep -f "muster agent serve --host n2" | head -n1) | head -n1'
carrier='pgrep -f "muster agent serve --host n2" | head -n1'

@test "agent: an agent is killed: its node is named, everything ends" {
    kill_during "$worker" KILL
    status 4
    has 'node n2 is lost'
}

@test "agent: the guardian of an agent is killed: its node is named, everything ends" {
    kill_during "$carrier" KILL
    status 4
    has 'node n2 is lost'
}

@test "agent: an agent and its guardian are killed at once: nothing is left" {
    kill_during 'pgrep -f "muster agent serve --host n2" | tr "\n" " "' KILL
    status 4
    has 'node n2 is lost'
}

@test "agent: an agent that is stopped is found by its silence" {
    kill_during "$worker" STOP
    status 4
    has 'node n2 is lost: nothing came from it for 6 s'
}

@test "agent: the launcher is killed: nothing is left" {
    kill_during 'pgrep -x muster -P $(pgrep -fo "muster launch")' KILL
    status 4
    has 'the launcher (pid'
}

@test "agent: the launcher and its guardian are killed at once: nothing is left" {
    kill_during 'pgrep -f "muster launch" | tr "\n" " "' KILL
    status 137
}

@test "agent: a launch that is stopped ends its ranks on all hosts" {
    kill_during 'pgrep -fo "muster launch"' TERM
    status 143
    has 'was stopped'
}

@test "agent: a slow reader holds the ranks up and loses nothing that is kept" {
    run agents 2 sh -c 'muster launch --gpus 2 -- sh -c "i=0; while [ \$i -lt 20000 ]; do echo \$i; i=\$((i + 1)); done" 2>/dev/null | { sleep 1; cat >/dev/null; }; cat "$MUSTER_HOME"/runs/*/ranks/*.log | wc -l'
    status 0
    has 40000
}

@test "C12: over several nodes the rank that was chosen reads stdin, no other" {
    printf 'n1\nn2\nn3\n' >list
    run sh -c "$(declare -f agents); agents 2 muster launch --gpus 4 --stdin 2 -- sh -c 'echo \"got \$(wc -c)\"' <list"
    status 0
    has 'n2:2: got 9'
    [ "$(grep -c 'got 0$' <<<"$output")" -eq 3 ]
    # through a pipe, whose writer is slow; more than may be on the way, byte for byte
    head -c 3000000 /dev/urandom >big
    (head -c 1000 big; sleep 0.3; tail -c +1001 big) |
        agents 2 muster launch --gpus 2 --stdin 1 -q -- sh -c '[ $RANK = 0 ] || cat >copy'
    cmp big copy
    agents 2 muster launch --gpus 2 --stdin 1 -q -- sh -c '[ $RANK = 0 ] || { sleep 0.5; cat >copy2; }' <big
    cmp big copy2
    # a rank that reads a part of it, and one that ends without reading
    run sh -c "$(declare -f agents); agents 2 muster launch --gpus 2 --stdin 1 -- sh -c 'head -c 5 >part; exec <&-; sleep 0.2; echo over' <big"
    status 0
    [ "$(grep -c over <<<"$output")" -eq 2 ]
    run sh -c "$(declare -f agents); agents 2 muster launch --gpus 2 --stdin 1 -- true <big"
    status 0
    # an endless writer is not waited for
    run sh -c "$(declare -f agents); agents 2 muster launch --gpus 2 --stdin 0 -- sh -c '[ \$RANK = 1 ] || head -c 100000 | wc -c' </dev/zero"
    status 0
    has 100000
}

@test "agent: what is no agent's business is refused" {
    run muster agent
    status 2
    has 'started by muster itself'
    run agents 0 muster launch --gpus 2 -- true
    status 2
    has 'MUSTER_TEST_LOCAL_AGENTS=0'
    printf 'what is this' | run muster agent serve
    run sh -c 'printf "\377\377\377\377\001\000\000\000xxxx" | muster agent serve 2>&1 >/dev/null'
    lacks 'Segmentation'
}
