# muster launch: starting, output, endings.  Case ids are those of the fault cases.
load lib

ranks() { muster launch --gpus "$@"; }

@test "launch: a command gets its place in the environment" {
    run ranks 3 -- sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR ${MASTER_PORT:+port}'
    status 0
    for r in 0 1 2; do has ":$r: $r 3 $r 3 0 127.0.0.1 port"; done
    has 'is done, 3 ranks'
}

@test "launch: an Open MPI program as it is, 2 and 8 ranks" {
    for n in 2 8; do
        run ranks $n -- mpi_hello
        status 0
        [ "$(grep -c "of $n: ring ok, sum $((n * (n - 1) / 2))" <<<"$output")" -eq $n ]
    done
}

@test "launch: 64 ranks meet and leave" {
    run ranks 64 -- pmix_hello
    status 0
    has ':0: 64 ranks have met'
}

@test "launch: 64 ranks of an Open MPI program" {
    run ranks 64 -- mpi_hello
    status 0
    [ "$(grep -c 'of 64: ring ok, sum 2016' <<<"$output")" -eq 64 ]
}

@test "launch: the first rank that failed is named with its status and last words" {
    run ranks 4 -- sh -c 'if [ $RANK = 2 ]; then echo "disk is full" >&2; exit 7; fi; sleep 60'
    status 7
    has 'rank 2 on'
    has 'ended with status 7; its last words: disk is full'
    run cat "$MUSTER_HOME"/runs/*/result.json
    has '"cause": "rank"'
    has '"culprit": 2'
    [ "$(grep -c null <<<"$(sed -n '/rank_status/,/]/p' <<<"$output")")" -eq 3 ]
}

@test "launch: a rank that dies of a signal makes 128+n" {
    run ranks 3 -- sh -c 'if [ $RANK = 1 ]; then kill -SEGV $$; fi; sleep 60'
    status 139
    has 'rank 1 on'
    has 'died of signal 11 (Segmentation fault)'
}

@test "launch: MPI_Abort names the rank and its status" {
    run ranks 4 -- mpi_hello abort 3 9
    status 9
    has 'rank 3 on'
    has 'aborted with status 9'
}

@test "launch: a rank that leaves without MPI_Finalize is a failure, not a hang" {
    run timeout 30 muster launch --gpus 3 -- mpi_hello leave 1
    status 1
    has 'rank 1 on'
    has 'without PMIx_Finalize'
}

@test "C20: ranks that never meet are named within the deadline" {
    start=$(date +%s%N)
    run ranks 8 --start-timeout 3s --grace 1s -- pmix_hello late 3 late 6
    took=$((($(date +%s%N) - start) / 1000000))
    status 5
    has '2 of 8 ranks did not arrive at PMIx_Init within 3 s: rank 3 on '
    has ', rank 6 on '
    [ $took -ge 3000 ] && [ $took -lt 6000 ]
    run cat "$MUSTER_HOME"/runs/*/result.json
    has '"cause": "timeout"'
}

@test "launch: a command without PMIx has no meeting to miss" {
    run ranks 2 --start-timeout 1s -- sleep 2
    status 0
}

@test "launch: silence is a deadline too" {
    run ranks 3 --silence-timeout 2s --grace 1s -- sh -c 'if [ $RANK = 1 ]; then sleep 60; fi; for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 1; done'
    status 5
    has 'no sign of life for 2 s: rank 1 on'
}

@test "C12: no rank reads stdin unless it is chosen" {
    printf 'n1\nn2\nn3\n' >list
    n=0
    while read -r node; do
        ranks 2 -- sh -c 'cat >/dev/null' >/dev/null 2>&1
        n=$((n + 1))
    done <list
    [ $n -eq 3 ]
    run ranks 3 --stdin 1 -- sh -c 'echo "got $(wc -c)"' <list
    status 0
    has ':1: got 9'
    has ':0: got 0'
    has ':2: got 0'
}

@test "C15: the environment arrives byte for byte" {
    export NCCL_IB_HCA=mlx5_0,mlx5_1 X='a b;c"d' Y=é Z=
    ours='^(_|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|MASTER_ADDR|MASTER_PORT|MUSTER_RUN|MUSTER_GUARD|MUSTER_EVENT_FD|MUSTER_JOB_KEY|PMIX_[A-Z0-9_]*|OMPI_MCA_[a-z_]*|JSM_JSRUN_PORT|OPENBLAS_NUM_THREADS)='
    sh -c 'cat /proc/$$/environ >env.want'
    muster launch --gpus 2 -- sh -c 'cat /proc/$$/environ >env.$RANK' >/dev/null 2>&1
    grep -zvE "$ours" env.want | sort -z >want
    for r in 0 1; do
        grep -zvE "$ours" env.$r | sort -z >got
        cmp want got || { diff -a <(tr '\0' '\n' <want) <(tr '\0' '\n' <got); false; }
        for v in 'Z=' 'NCCL_IB_HCA=mlx5_0,mlx5_1' 'X=a b;c"d' 'Y=é' "PATH=$PATH"; do
            grep -azqxF -- "$v" env.$r || { echo "no $v"; false; }
        done
    done
}

@test "launch: what an outer launcher left is not passed on, what the user set is" {
    run env PMIX_RANK=9 PMI_RANK=9 SLURM_PROCID=2 SLURM_CONF=/c OMPI_COMM_WORLD_SIZE=4 \
        OMPI_MCA_pml=x MASTER_ADDR=gn08-ib OPENBLAS_NUM_THREADS=5 \
        muster launch --gpus 1 -- sh -c 'echo "[$PMIX_RANK]" "[$PMI_RANK]" "[$SLURM_PROCID]" "[$SLURM_CONF]" "[$OMPI_MCA_pml]" "[$MASTER_ADDR]" "[$OPENBLAS_NUM_THREADS]"'
    status 0
    has ':0: [0] [] [] [/c] [ob1] [gn08-ib] [5]'
    run env OMPI_MCA_btl=self,tcp muster launch --gpus 1 -- sh -c 'echo "[$OMPI_MCA_btl]"'
    has '[self,tcp]'
}

@test "C01: a rank started by muster is never a singleton, whatever the outer step said" {
    set -a; . "$SRC/tests/cases/c01_singleton.env"; set +a
    unset SLURM_JOB_ID # else Slurm starts the ranks, and muster-train says what is wrong
    run ranks 2 -- mpi_hello
    status 0
    has 'rank 0 of 2: ring ok, sum 1'
    has 'rank 1 of 2: ring ok, sum 1'
}

@test "C17: arguments arrive byte for byte" {
    mkdir -p 'données/mö tor'
    printf '#!/bin/sh\nprintf "%%s\\0" "$@" >"argv.$RANK"\n' >'données/mö tor/train'
    chmod +x 'données/mö tor/train'
    ranks 2 -- './données/mö tor/train' '--out=a b'\''c"d$HOME' '*' '' -x
    printf '%s\0' '--out=a b'\''c"d$HOME' '*' '' -x >want
    for r in 0 1; do cmp want argv.$r; done
}

@test "C17: a dry run prints what sh would run byte for byte" {
    run ranks 1 --dry-run -- printf '%s\0' 'a b'\''c"d$HOME' '*' '' -x
    status 0
    [ ! -e "$MUSTER_HOME" ]
    grep '^env ' <<<"$output" | sh >got
    printf '%s\0' 'a b'\''c"d$HOME' '*' '' -x | cmp - got
}

@test "launch: secrets are redacted in what is printed and saved, not in what ranks get" {
    export HF_TOKEN=
    run env -u HF_TOKEN muster launch --gpus 1 --dry-run -- prog_of_nobody
    status 3
    run ranks 1 --dry-run -- sh -c : --api-key=abc123 --db-password hunter2 WANDB_API_KEY=k9
    lacks abc123
    lacks hunter2
    lacks k9
    has '<redacted>'
    run ranks 1 -- sh -c 'echo $#: $*' x --api-key=abc123
    has '1: --api-key=abc123'
    run grep -r abc123 "$MUSTER_HOME"/runs --include=*.json
    status 1
}

@test "C18: whole lines, bytes unchanged, one rank a line" {
    cat >talk <<'X'
half=$(printf '%0148d' 7)
i=0
while [ $i -lt 1000 ]; do
    printf '%04d%s' $i "$half"
    printf '%s\n' "$half"
    i=$((i + 1))
done
[ "$RANK" != 3 ] || printf 'the end'
printf 'bad \377\376 bytes\n' >&2
X
    ranks 4 -- sh ./talk >out 2>err
    [ "$(wc -l <out)" -eq 4001 ]
    half=$(printf '%0148d' 7)
    for r in 0 1 2 3; do
        i=0
        while [ $i -lt 1000 ]; do printf '%04d%s%s\n' $i "$half" "$half"; i=$((i + 1)); done >want
        [ $r != 3 ] || printf 'the end\n' >>want
        grep -a "^[^:]*:$r: " out | sed 's/^[^:]*:[0-9]*: //' | cmp want -
    done
    [ "$(grep -ac "$(printf ': bad \377\376 bytes$')" err)" -eq 4 ]
    # the file holds the very bytes: no newline was added
    grep -av '^bad' "$MUSTER_HOME"/runs/*/ranks/*.3.log | tail -c 7 >tail
    [ "$(tail -c 25 "$MUSTER_HOME"/runs/*/ranks/*.3.log | grep -ac 'the end')" -eq 1 ]
}

@test "C18: a progress bar keeps its bytes in a pipe" {
    ranks 1 -- printf '10%%\r20%%\r\n30%%\r' >out 2>err
    printf '10%%\r20%%\r\n30%%\r\n' >want
    sed 's/^[^:]*:0: //' out | cmp want -
    printf '10%%\r20%%\r\n30%%\r' | cmp - "$MUSTER_HOME"/runs/*/ranks/*.0.log
}

@test "launch: a reader that goes away ends the run, as it ends any program" {
    ulimit -f 200000
    run bash -c 'muster launch --gpus 2 --grace 1s -- yes hello 2>err | head -3; echo "${PIPESTATUS[0]}" >rc'
    [ "$(wc -l <<<"$output")" -eq 3 ]
    [ "$(cat rc)" = 141 ]
    grep -q "was stopped: nobody reads muster's output any more" err
}

@test "launch: a reader that stands still does not stop the run" {
    (muster launch --gpus 2 -- sh -c 'head -c 40000000 /dev/zero | tr "\0" "x" | fold -w 100; echo >slow.$RANK' 2>err) |
        (for i in $(seq 300); do [ -e slow.0 ] && [ -e slow.1 ] && break; sleep 0.1; done; head -c 10 >/dev/null)
    [ -e slow.0 ] && [ -e slow.1 ]
}

@test "launch: a rank that prints without end fills no disk" {
    MUSTER_LOG_LIMIT=1MiB muster launch --gpus 1 -- sh -c 'yes | head -c 3000000; echo "the end"' >out 2>err
    grep -q 'from here on the output of rank 0 is not kept: .*File too large' err
    grep -q ':0: the end' out
    size=$(stat -c %s "$MUSTER_HOME"/runs/*/ranks/*.log)
    [ "$size" -le 1048576 ] && [ "$size" -gt 900000 ]
}

@test "launch: --json prints one object with cause and rank_status" {
    ranks 2 --json -- sh -c 'echo noise; sleep $RANK; exit $RANK' >out 2>err || [ $? -eq 1 ]
    python3 - <<'X'
import json
o = json.load(open("out"))
assert o["status"] == 1 and o["cause"] == "rank" and o["culprit"] == 1, o
assert o["rank_status"] == [0, 1], o
for k in "run steps loss_first loss_last tokens_per_s_per_gpu mfu_reference memory_percent".split():
    assert k in o, k
X
    grep -q ':0: noise' err
}

@test "launch: the run's folder is private and complete" {
    ranks 2 -- sh -c 'echo hi' >/dev/null 2>&1
    d=$(echo "$MUSTER_HOME"/runs/*)
    [ "$(stat -c %a "$d")" = 700 ]
    for f in run.json plan.json events.jsonl result.json; do [ "$(stat -c %a "$d/$f")" = 600 ] || [ $f = events.jsonl ]; done
    [ "$(ls "$d/ranks" | wc -l)" -eq 2 ]
    [ "$(cat "$d"/ranks/*.1.log)" = hi ]
    [ -z "$(ls "${TMPDIR:-/tmp}" | grep "^muster-" | grep -v . || true)" ]
}

@test "launch: wrong command lines get one clear line" {
    run muster launch
    status 2
    has 'name a recipe, or a command behind --'
    run muster launch --gpus x -- true
    status 2
    run muster launch --gpus 0 -- true
    status 2
    has 'a number from 1 to'
    run muster launch --gpus 2 --dry-rnu -- true
    status 2
    has "did you mean '--dry-run'?"
    run muster launch --gpus 2 -- no-such-program
    status 3
    has "no program 'no-such-program' in PATH"
    run muster launch --gpus 2 --stdin 2 -- true
    status 2
    run muster launch --gpus 1 -- ./nothing
    status 3
    [ ! -e "$MUSTER_HOME/runs" ]
    touch plain
    run muster launch --gpus 1 -- ./plain
    status 3
    has 'is not a file that can be executed'
}

@test "launch: a script without #! goes to sh, one with a missing interpreter is named" {
    echo 'echo plain $RANK' >plain && chmod +x plain
    run ranks 2 -- ./plain
    status 0
    has ':1: plain 1'
    printf '#!/no/such/interpreter\n' >bad && chmod +x bad
    run ranks 2 -- ./bad
    status 3
    has 'cannot start ./bad'
}

@test "launch: USR1 reaches every rank" {
    muster launch --gpus 2 -- sh -c 'trap "echo got USR1; exit 0" USR1; echo ready >ready.$RANK; while :; do sleep 0.1; done' >out 2>err &
    until [ -e ready.0 ] && [ -e ready.1 ]; do sleep 0.05; done
    kill -USR1 $!
    wait $!
    [ "$(grep -c 'got USR1' out)" -eq 2 ]
}

@test "launch: --detach prints the run's name and lets go of the terminal" {
    id=$(muster launch --gpus 2 --detach -- sh -c 'sleep 1; echo late')
    [ ! -e "$MUSTER_HOME/runs/$id/result.json" ]
    for i in $(seq 100); do [ -e "$MUSTER_HOME/runs/$id/result.json" ] && break; sleep 0.1; done
    grep -q '"cause": "ok"' "$MUSTER_HOME/runs/$id/result.json"
    [ "$(cat "$MUSTER_HOME/runs/$id"/ranks/*.1.log)" = late ]
    run muster launch --gpus 2 --detach -- no-such-program
    status 3
    has 'no-such-program'
}

@test "launch: a recipe trains, and says what it did" {
    mkdir data
    cat "$SRC"/LICENSE "$SRC"/CONTRIBUTING.md >text
    muster data pack -o data/text.bin text text
    run env MUSTER_DEMO_DATA="$T/data" muster launch "$SRC/recipes/demo.yaml" --gpus 2 --json \
        --set training.steps=4 --set data.validation_interval=0 --profile 2:3
    status 0
    has '"steps": 4'
    has '"cause": "ok"'
    d=$(echo "$MUSTER_HOME"/runs/demo-*)
    grep -q 'steps: 4' "$d/recipe.yaml"
    for k in world memory predicted groups ranks commands; do grep -q "\"$k\"" "$d/plan.json"; done
    grep -q '"event":"place"' "$d/events.jsonl"
    for r in 0 1; do
        grep -q 'steps 2 to 3' "$d/profile/rank$r.txt"
        grep -q traceEvents "$d/profile/rank$r.json"
    done
    # a specification of a machine that is not this one: planned there, run here
    run env MUSTER_DEMO_DATA="$T/data" muster launch "$SRC/recipes/demo.yaml" --gpus 2 \
        --cluster "$SRC/recipes/clusters/laptop.yaml" --set training.steps=2 --set data.validation_interval=0
    status 0
    has 'is done, 2 ranks; 2 steps; loss '
}

@test "launch: --profile wants two steps of a recipe" {
    for bad in 5 0:3 5:4 x:y 3: 1:2x; do
        run muster launch "$SRC/recipes/demo.yaml" --gpus 2 --profile $bad
        status 2
        has "--profile $bad: two steps, the first and the last"
    done
    run muster launch --gpus 1 --profile 1:2 -- true
    status 2
    has '--profile is for a recipe'
}

@test "launch: recipes with mistakes start nothing" {
    printf 'name: x\nmodel: {preset: demo}\ntraining: {stepz: 1}\n' >bad.yaml
    run muster launch bad.yaml --gpus 2
    status 2
    has 'bad.yaml:3'
    run muster launch "$SRC/recipes/demo.yaml" --gpus 3
    status 2
    run muster launch "$SRC/recipes/demo.yaml" --gpus 2 --set training.stepz=1
    status 2
    has 'training.steps'
    [ ! -e "$MUSTER_HOME/runs" ]
    run muster launch no-such.yaml
    status 3
}

@test "launch: a failed check refuses a recipe, --no-check starts it all the same" {
    mkdir data bin
    cat "$SRC"/LICENSE "$SRC"/CONTRIBUTING.md >text
    muster data pack -o data/text.bin text text
    export MUSTER_DEMO_DATA="$T/data"
    cp "$O/bin/muster" "$O/bin/muster-train" bin/
    ln -s "$O/lib" lib
    printf '#!/bin/sh\n[ "$RANK" = 1 ] && { echo "device is on fire" >&2; exit 9; }\nexec "%s/bin/muster-probe" "$@"\n' "$O" >bin/muster-probe
    chmod +x bin/muster-probe
    run bin/muster launch "$SRC/recipes/demo.yaml" --gpus 2 --set training.steps=2
    status 1
    has 'nothing was started'
    has 'device is on fire'
    lacks 'muster-train'
    run bin/muster launch "$SRC/recipes/demo.yaml" --gpus 2 --no-check --set training.steps=2
    status 0
}

@test "C12: what is typed reaches the chosen rank, Ctrl-D ends it" {
    cat >type.py <<'X'
import os, pty, time
pid, fd = pty.fork()
if pid == 0:
    os.execvp("muster", ["muster", "launch", "--gpus", "2", "--stdin", "1", "--", "sh", "-c",
                         'echo up >up.$RANK; cat >typed.$RANK'])
while not os.path.exists("up.1"):
    time.sleep(0.05)
os.write(fd, b"hello\n")
time.sleep(0.3)
os.write(fd, b"\x04")
try:
    while os.read(fd, 4096):
        pass
except OSError:
    pass
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
X
    run timeout 30 python3 type.py
    [ "$output" = 0 ]
    [ "$(cat typed.1)" = hello ]
    [ ! -s typed.0 ]
}

@test "C18: on a terminal a progress bar is seen moving" {
    cat >bar.py <<'X'
import os, pty
pid, fd = pty.fork()
if pid == 0:
    os.execvp("muster", ["muster", "launch", "--gpus", "1", "--", "sh", "-c",
                         "printf '10%%\\r'; sleep 1; printf '20%%\\r'; touch mark; sleep 2; printf 'done\\n'"])
seen = b""
early = None
try:
    while True:
        seen += os.read(fd, 4096)
        if early is None and os.path.exists("mark"):
            early = seen
except OSError:
    pass
os.waitpid(pid, 0)
assert b":0: 10%\r\n" in seen, seen
assert b":0: done\r\n" in seen, seen
X
    timeout 30 python3 bar.py
}

@test "launch: a reader that has gone is named, not a launcher that died" {
    (muster launch --gpus 1 --json -- sleep 0.2 2>err || echo $? >rc) | true
    cat err
    [ "$(cat rc)" -eq 4 ]
    grep -q 'standard output cannot be written: Broken pipe' err
    [ "$(grep -c signal err)" -eq 0 ]
}

@test "launch: too few open files are named, wherever they run out" {
    ok=0 failed=0
    for n in 24 30 32 34 36 40 64; do
        run sh -c "ulimit -n $n; muster launch --gpus 2 -- true"
        if [ "$status" -eq 0 ]; then
            ok=$((ok + 1))
        else
            failed=$((failed + 1))
            status 4
            has 'Too many open files'
            has 'ulimit -n'
        fi
    done
    [ $ok -gt 0 ]
    [ $failed -gt 0 ]
}

@test "launch: files that may not grow are named, and the run goes on" {
    run bash -c "ulimit -f 400; muster launch --gpus 1 -- sh -c 'head -c 900000 /dev/zero | tr \\\\0 x | fold -w 80'"
    status 0
    has 'the output of rank 0 is not kept'
    has 'File too large'
    has 'is done, 1 rank'
}

@test "launch: secrets of a recipe are not in what is kept of a run" {
    cat >secret.yaml <<'Y'
model: {preset: qwen3-30b-a3b, layers: 1}
training: {seq_len: 128, steps: 1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster:
  device: sim
  slurm: {env: {HF_TOKEN: hunter2, PLAIN: seen, REPO: "https://u:hunter3@h/x"}, setup: [fetch, --password, hunter4]}
Y
    MUSTER_SIM=time=0.01 run muster launch secret.yaml --gpus 1
    status 0
    run grep -rla hunter "$MUSTER_HOME"
    [ -z "$output" ]
    run cat "$MUSTER_HOME"/runs/*/recipe.yaml
    has '"HF_TOKEN=<redacted>", "PLAIN=seen", "REPO=https://u:<redacted>@h/x"'
    run muster launch "$MUSTER_HOME"/runs/*/recipe.yaml --gpus 1
    status 2
    has "cluster.slurm.env: 'HF_TOKEN=<redacted>': the secret was taken out when this copy was saved"
}
