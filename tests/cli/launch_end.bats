# muster launch: however it ends, nothing of the run is left (case C13).
load lib

# Start a run of ranks that ignore TERM, each with a child and an orphan in sessions
# of their own; wait until all are there.  Sets $muster (the guardian) and $pids.
start_stubborn()
{
    muster launch --gpus 2 --grace 1s "$@" -- stubborn "$T/pids" >out 2>err &
    muster=$!
    for i in $(seq 200); do
        [ -e pids.0 ] && [ -e pids.1 ] && break
        sleep 0.05
    done
    pids=$(cat pids.0 pids.1)
    [ "$(wc -w <<<"$pids")" -eq 6 ]
    launcher=$(pgrep -x muster -P $muster)
    for p in $pids; do alive $p; done
}

# A zombie that its parent has not looked at yet is dead.
alive() { [ -e /proc/$1/stat ] && ! grep -q '^State:.Z' /proc/$1/status; }

# All gone within 8 s, launcher and guardian too?
all_gone()
{
    for i in $(seq 80); do
        left=
        for p in $pids $launcher $muster; do alive $p && left="$left $p"; done
        [ -z "$left" ] && return 0
        sleep 0.1
    done
    echo "left: $left"
    kill -9 $left
    return 1
}

stranger() { setsid sleep 300 & stranger=$!; disown; }
stranger_lives() { alive $stranger && kill -9 $stranger; }

@test "C13: SIGTERM to muster" {
    stranger
    start_stubborn
    kill -TERM $muster
    rc=0; wait $muster || rc=$?
    [ $rc -eq 143 ]
    all_gone
    grep -q 'was stopped: stopped by signal 15' err
    grep -q '"cause": "stopped"' "$MUSTER_HOME"/runs/*/result.json
    stranger_lives
}

@test "C13: SIGKILL of the launcher" {
    stranger
    start_stubborn
    kill -KILL $launcher
    rc=0; wait $muster || rc=$?
    [ $rc -eq 4 ]
    all_gone
    grep -q 'died of signal 9' err
    stranger_lives
}

@test "C13: SIGKILL of the guardian" {
    stranger
    start_stubborn
    kill -KILL $muster
    all_gone
    grep -q 'guardian process died' "$MUSTER_HOME"/runs/*/result.json
    stranger_lives
}

@test "C13: SIGKILL of launcher and guardian at once" {
    stranger
    export TMPDIR="$T/tmp"
    mkdir "$TMPDIR"
    start_stubborn
    kill -KILL $(pgrep -f '^muster launch --gpus 2 --grace 1s -- stubborn '"$T/") # as pkill -9 -f does
    all_gone
    for i in $(seq 100); do [ -z "$(ls "$TMPDIR")" ] && break; sleep 0.05; done
    [ -z "$(ls "$TMPDIR")" ]
    stranger_lives
}

@test "C13: killall -9 muster" {
    stranger
    start_stubborn
    [ "$(cat /proc/$muster/comm)" = mguard ]
    [ "$(cat /proc/$launcher/comm)" = muster ]
    stranger_lives
    kill -KILL $launcher
    all_gone
}

@test "C13: Ctrl-C and a closed terminal" {
    for how in int hup; do
        rm -f pids.*
        cat >terminal.py <<'X'
import os, pty, signal, sys, time, glob
pid, fd = pty.fork()
if pid == 0:
    os.execvp("muster", ["muster", "launch", "--gpus", "2", "--grace", "1s", "--",
                         "stubborn", os.environ["T"] + "/pids"])
while len([f for f in glob.glob("pids.*") if f[-1] in "01"]) < 2:
    time.sleep(0.05)
open("muster.pid", "w").write(str(pid))
if sys.argv[1] == "int":
    os.write(fd, b"\x03")
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass
else:
    os.close(fd)
_, raw = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(raw))
X
        export T
        run python3 terminal.py $how
        echo "$output"
        muster=$(cat muster.pid) launcher= pids=$(cat pids.0 pids.1)
        all_gone
        case $how in int) [ "$output" = 130 ] ;; hup) [ "$output" = 129 ] ;; esac
    done
}

@test "launch: a second Ctrl-C does not wait for the grace" {
    muster launch --gpus 2 --grace 60s -- stubborn "$T/pids" >out 2>err &
    muster=$! launcher=
    until [ -e pids.0 ] && [ -e pids.1 ]; do sleep 0.05; done
    pids=$(cat pids.0 pids.1)
    kill -TERM $muster # a background job of sh ignores INT
    sleep 0.5
    kill -TERM $muster
    all_gone
}

@test "C13: what ranks leave behind when they end well" {
    muster launch --gpus 2 --grace 1s -- sh -c 'setsid sleep 300 & echo $! >left.$RANK' >out 2>err
    ! alive "$(cat left.0)"
    ! alive "$(cat left.1)"
    ! alive "$(cat left.1)"
}

@test "C13: a rank that ends itself on TERM gets its time" {
    muster launch --gpus 2 --grace 5s -- sh -c 'trap "sleep 1; echo saved >saved.$RANK; exit 0" TERM; echo >up.$RANK; while :; do sleep 0.1; done' >out 2>err &
    until [ -e up.0 ] && [ -e up.1 ]; do sleep 0.05; done
    kill -TERM $!
    rc=0; wait $! || rc=$?
    [ $rc -eq 143 ]
    [ -e saved.0 ] && [ -e saved.1 ]
}

@test "launch: nohup is respected" {
    nohup muster launch --gpus 1 -- sh -c 'echo >up; sleep 2' >out 2>err &
    pid=$!
    until [ -e up ]; do sleep 0.05; done
    kill -HUP $pid
    wait $pid
}

@test "launch: Ctrl-Z stops the ranks and the clock, fg goes on" {
    muster launch --gpus 2 --silence-timeout 2s -- sh -c 'i=0; while [ $i -lt 20 ]; do echo $i; i=$((i + 1)); sleep 0.2; done' >out 2>err &
    pid=$!
    until [ "$(wc -l <out)" -gt 4 ]; do sleep 0.05; done
    kill -TSTP $pid
    sleep 0.5
    n=$(wc -l <out)
    sleep 3
    [ "$(wc -l <out)" -eq "$n" ]
    kill -CONT $pid
    wait $pid
    [ "$(wc -l <out)" -eq 40 ]
}

@test "launch: no temporary folder or shared memory is left" {
    export TMPDIR="$T/tmp"
    mkdir "$TMPDIR"
    show='echo $OMPI_MCA_btl_vader_backing_directory >shm.$RANK'
    muster launch --gpus 4 -- sh -c "$show; exec mpi_hello" >out 2>err
    [ ! -e "$(cat shm.0)" ]
    ! muster launch --gpus 4 --grace 1s -- sh -c "$show; exec mpi_hello abort 1 3" >out 2>err
    [ -s shm.1 ] && [ ! -e "$(cat shm.1)" ]
    for victim in launcher muster; do
        rm -f pids.*
        start_stubborn
        shm=$(tr '\0' '\n' </proc/$(head -1 pids.0)/environ | sed -n 's/^OMPI_MCA_btl_vader_backing_directory=//p')
        [ -d "$shm" ]
        kill -KILL ${!victim}
        all_gone
        [ ! -e "$shm" ] && [ ! -e "${shm%/*}" ]
    done
    [ -z "$(ls "$TMPDIR")" ] || { ls -R "$TMPDIR"; false; }
}

@test "launch: valgrind finds nothing in the launcher" {
    command -v valgrind >/dev/null || skip 'valgrind is not installed'
    case $O in *asan* | *tsan*) skip "a sanitizer is at work already" ;; esac
    vg="valgrind -q --error-exitcode=9 --leak-check=full --child-silent-after-fork=no
        --suppressions=$SRC/tests/valgrind.supp"
    # shellcheck disable=SC2086
    run $vg "$O/bin/muster" launch --gpus 2 -- pmix_hello
    status 0
    run $vg "$O/bin/muster" launch --gpus 2 --grace 1s -- sh -c 'echo $RANK; exit $RANK'
    status 1
    run $vg "$O/bin/muster" launch --gpus 2 --dry-run -- sh -c :
    status 0
}

@test "C13: random kills leave nothing (a sample of tests/soak/launch_kill.sh)" {
    run env O="$O" bash "$SRC/tests/soak/launch_kill.sh" 8 "$RANDOM"
    echo "$output"
    status 0
}

@test "launch: a launcher that stood still accuses no rank of silence" {
    muster launch --gpus 2 --grace 1s --silence-timeout 2s -- \
        sh -c 'while [ ! -e over ]; do echo tick; sleep 0.1; done' >out 2>err &
    muster=$!
    for i in $(seq 200); do
        [ "$(grep -c tick out)" -lt 2 ] || break
        sleep 0.05
    done
    launcher=$(pgrep -x muster -P $muster)
    kill -STOP $launcher
    sleep 4
    kill -CONT $launcher
    sleep 0.5
    touch over
    rc=0; wait $muster || rc=$?
    cat err
    [ $rc -eq 0 ]
    grep -q 'muster was not let run for [0-9]* s' err
}
