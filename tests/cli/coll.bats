# Collectives between MPI ranks, held to a serial sum in rank order.
load lib

# One core may be all there is; a container may forbid process_vm_readv.
ranks()
{
    local n=$1
    shift
    run timeout 120 mpirun --allow-run-as-root --oversubscribe --mca btl self,vader \
        -n "$n" coll_test "$@"
}

@test "coll: every collective, group and size equals the serial sum (4 ranks, 20 repetitions)" {
    ranks 4 all 20
    status 0
    has 'mpi: all of 4 is right'
}

@test "coll: three ranks, groups of one among them" {
    ranks 3 all 3
    status 0
    has 'mpi: all of 3 is right'
}

@test "coll: one rank is its own world" {
    run coll_test all 2
    status 0
    has 'self: all of 1 is right'
}

@test "coll: requests may be finished in any order" {
    ranks 4 order
    status 0
    has 'mpi: order of 4 is right'
}

@test "coll: a rank that never joins is named within the deadline (C20)" {
    begun=$SECONDS
    ranks 4 absent 2000
    status 5
    has "all_reduce of group 'world' (4 ranks): not heard from within 2."
    has "rank 2 ($(hostname))"
    [ $((SECONDS - begun)) -le 12 ]
}

@test "coll: a rank that never comes to the wireup is named before MPI starts (C20)" {
    begun=$SECONDS
    ranks 4 late 2000
    status 5
    has 'wireup: 3 of 4 ranks came within'
    has "missing: rank 2 ($(hostname))"
    [ $((SECONDS - begun)) -le 15 ]
}

@test "wireup: MPI that starts alone beside RANK and WORLD_SIZE is refused" {
    local port=$((20000 + RANDOM % 9000)) pid
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port coll_test all 2>/dev/null &
    pid=$!
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port run coll_test all
    wait "$pid" || true
    status 2
    has 'MPI started alone (rank 0 of 1)'
}

@test "wireup: a singleton inside a Slurm step is refused, naming --mpi=pmix (C01)" {
    run env -u PMIX_RANK $(grep -v '^#' "$SRC/tests/cases/c01_singleton.env") coll_test all
    status 2
    has 'SLURM_STEP_NUM_TASKS is 4'
    has 'SLURM_MPI_TYPE is pmi2'
    has 'srun --mpi=pmix'
}
