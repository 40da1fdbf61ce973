# The large lab (`make lab-512`), small.
load lib

# large NODES STEPS: from nothing to nothing
large()
{
    run timeout 300 "$SRC/tests/lab/large.sh" "$@"
    [ "$status" -ne 3 ] || skip "${lines[-1]}"
}

@test "lab: one command takes 16 simulated ranks over two nodes, as an ordinary user" {
    large 2 3
    status 0
    has 'everything about nodes, GPUs and steps is simulated'
    has '2 of 2 up'
    has '16 of 16 ranks by PMIx'
    has '16 where the plan has them'
    has 'muster with status 0'
    has '16 ranks; simulated; 3 steps'
}

@test "lab: what goes wrong in it is its status" {
    MUSTER_SIM=time=0,crash=5@2 large 2 3
    status 1
    has 'rank 5 on n1'
    has 'muster ended with status 139'
}
