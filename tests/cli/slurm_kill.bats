# A small sample of tests/soak/slurm_kill.sh: parts of a run under a real Slurm are killed.
load lib

setup_file() { slurm_lab 3; }
teardown_file() { slurm_lab_end; }

# killed KIND...: each once
killed()
{
    [ -z "$SKIP" ] || skip "$SKIP"
    run env O="$O" LAB="$LAB/lab" NOTE="$T/note" KINDS="$*" V=1 timeout 300 bash "$SRC/tests/soak/slurm_kill.sh" 1 7
    status 0
    has "$# passed, 0 failed"
}

@test "slurm kills: a rank, its agent" { killed rank agent; }
@test "slurm kills: a slurmstepd, a whole node" { killed stepd node; }
@test "slurm kills: the launcher, its guardian, srun" { killed launcher guardian srun; }
@test "slurm kills: scancel of the step, of the job" { killed step job; }
@test "slurm kills: slurmd or the controller alone: the run goes on" { killed slurmd ctld; }
