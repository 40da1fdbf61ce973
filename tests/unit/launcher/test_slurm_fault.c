/* slurm_fault: the first cause among what is seen of a step that goes away. */
#include "test.h"

#include "launcher/slurm_fault.h"

enum { WORLD = 6 };

static const char *const host[WORLD] = { "n1", "n1", "n2", "n2", "n3", "n3" };

static void assert_verdict(struct slurm_fault *f, int64_t now, int status,
                           const char *cause, int culprit, const char *text)
{
    struct slurm_verdict v;

    assert_int_equal(slurm_fault_judge(f, slurm_fault_due(f) - 1, &v), 0);
    assert_int_equal(slurm_fault_judge(f, now, &v), 1);
    assert_int_equal(v.status, status);
    assert_string_equal(v.cause, cause);
    assert_int_equal(v.culprit, culprit);
    assert_non_null(strstr(v.reason.text, text));
    str_release(&v.reason);
    assert_int_equal(slurm_fault_judge(f, now + 5000, &v), 0); /* once */
    assert_int_equal(slurm_fault_due(f), 0);
}

static int blamed(const struct slurm_fault *f)
{
    int set = 0;

    for (int r = 0; r < WORLD; r++)
        set |= slurm_fault_blames(f, r) << r;
    return set;
}

static void nothing_is_wrong(void **state)
{
    struct slurm_fault *f = slurm_fault_new(WORLD, host);
    struct slurm_verdict v;

    (void)state;
    slurm_fault_line(f, "srun: cluster configuration lacks support for cpu binding", 1);
    assert_int_equal(slurm_fault_due(f), 0);
    assert_int_equal(slurm_fault_judge(f, 1 << 20, &v), 0);
    slurm_fault_free(f);
    slurm_fault_free(NULL);
}

static void agent(void **state)
{
    struct slurm_fault *f = slurm_fault_new(WORLD, host);

    (void)state;
    slurm_fault_lost(f, 3, 1000);
    slurm_fault_line(f, "srun: error: n2: task 3: Killed", 1010);
    assert_int_equal(slurm_fault_due(f), 1000 + SLURM_FAULT_MS);
    assert_verdict(f, 2000, 4, "node", 3, "rank 3 on n2 was lost: its agent died");
    assert_int_equal(blamed(f), 0xc);
    slurm_fault_free(f);
    f = slurm_fault_new(WORLD, host); /* both of a node, and srun saw them die */
    slurm_fault_lost(f, 4, 1000);
    slurm_fault_lost(f, 5, 1001);
    slurm_fault_line(f, "srun: error: n3: tasks 4-5: Killed", 1010);
    assert_verdict(f, 2000, 4, "node", -1,
                   "the agents of 2 ranks died, the first is rank 4");
    slurm_fault_free(f);
}

static void node(void **state)
{
    struct slurm_fault *f = slurm_fault_new(WORLD, host);

    (void)state;
    slurm_fault_lost(f, 2, 1000);
    slurm_fault_orphan(f, 3, 1000); /* its slurmstepd went first */
    slurm_fault_lost(f, 3, 1002);
    assert_verdict(f, 2000, 4, "node", -1, "node n2 (ranks 2, 3) is lost");
    assert_int_equal(blamed(f), 0xc);
    slurm_fault_free(f);
    f = slurm_fault_new(WORLD, host);
    slurm_fault_line(f, "srun: error: Node failure on n3", 1000);
    assert_verdict(f, 2000, 4, "node", -1, "node n3 failed, says Slurm");
    assert_int_equal(blamed(f), 0x30);
    slurm_fault_free(f);
    f = slurm_fault_new(WORLD, host);
    for (int r = 0; r < WORLD; r++)
        slurm_fault_lost(f, r, 1000);
    assert_verdict(f, 2000, 4, "node", -1,
                   "the agents of all 3 nodes were lost at once");
    slurm_fault_free(f);
}

static void stepd(void **state)
{
    struct slurm_fault *f = slurm_fault_new(WORLD, host);

    (void)state;
    slurm_fault_orphan(f, 0, 1000);
    slurm_fault_orphan(f, 1, 1001);
    assert_verdict(f, 2000, 4, "node", -1, "node n1: the slurmstepd of the step died");
    assert_int_equal(blamed(f), 3);
    slurm_fault_free(f);
}

static void slurm(void **state)
{
    struct slurm_fault *f = slurm_fault_new(WORLD, host);

    (void)state;
    for (int r = 0; r < WORLD; r++)
        slurm_fault_lost(f, r, 1000);
    slurm_fault_line(f,
                     "slurmstepd-n1: error: *** STEP 11.0 ON n1 CANCELLED AT "
                     "2026-11-30T15:52:20 DUE TO TIME LIMIT ***",
                     1100);
    assert_verdict(
        f, 2000, 143, "stopped", -1,
        "STEP 11.0 ON n1 CANCELLED AT 2026-11-30T15:52:20 DUE TO TIME LIMIT");
    assert_int_equal(blamed(f), 0);
    slurm_fault_free(f);
}

static void srun(void **state)
{
    struct slurm_fault *f = slurm_fault_new(WORLD, host);

    (void)state;
    slurm_fault_srun(f, 77, 9, 1000);
    for (int r = 0; r < WORLD; r++)
        slurm_fault_lost(f, r, 1100);
    assert_verdict(f, 2000, 4, "system", -1,
                   "srun (pid 77), which holds the step, died");
    slurm_fault_free(f);
}

static const char cancelled[] =
    "slurmstepd-n1: error: *** STEP 3.0 ON n1 CANCELLED AT 2026-11-30T16:48:35 ***";

static void an_abort_is_no_scancel(void **state)
{
    static const char said[] = "MPI_ABORT was invoked on rank 3 in communicator "
                               "MPI_COMM_WORLD\nwith errorcode 9.\n";
    static const char mpich[] = "application called MPI_Abort(MPI_COMM_WORLD, 7) - "
                                "process 4\n";
    struct slurm_fault *f = slurm_fault_new(WORLD, host);
    struct slurm_verdict v;

    (void)state;
    slurm_fault_printed(f, said, sizeof(said) - 1);
    slurm_fault_printed(f, mpich, sizeof(mpich) - 1); /* the first one counts */
    slurm_fault_lost(f, 3, 1000);
    slurm_fault_line(f, cancelled, 1000);
    assert_verdict(f, 2000, 9, "rank", 3, "rank 3 on n2 aborted with status 9");
    slurm_fault_free(f);
    f = slurm_fault_new(WORLD, host);
    slurm_fault_printed(f, mpich, sizeof(mpich) - 1);
    slurm_fault_line(f, cancelled, 1000);
    assert_verdict(f, 2000, 7, "rank", 4, "rank 4 on n3 aborted with status 7");
    slurm_fault_free(f);
    f = slurm_fault_new(WORLD,
                        host); /* a rank that said how it failed: the watch knows */
    slurm_fault_exit(f, 3, 9 << 8);
    slurm_fault_lost(f, 1, 1000);
    slurm_fault_line(f, cancelled, 1000);
    assert_int_equal(slurm_fault_judge(f, 2000, &v), 0);
    assert_int_equal(slurm_fault_due(f), 0);
    slurm_fault_free(f);
    f = slurm_fault_new(WORLD, host); /* Slurm's KILL is no failure of a rank's own */
    slurm_fault_exit(f, 3, 9);
    slurm_fault_line(f, cancelled, 1000);
    assert_verdict(f, 2000, 143, "stopped", -1, "STEP 3.0 ON n1 CANCELLED");
    slurm_fault_free(f);
}

static void tasks_that_ended(void **state)
{
    struct slurm_fault *f = slurm_fault_new(WORLD, host);

    (void)state;
    slurm_fault_line(f, "srun: error: n2: tasks 2-3,7: Exited with exit code 2", 1);
    slurm_fault_line(f,
                     "slurmstepd-n2: error: execve(): /x/muster: No such file or "
                     "directory",
                     2);
    slurm_fault_line(f, "srun: error: n2: tasks [,: Killed", 3);
    slurm_fault_line(f, ": task", 3);
    slurm_fault_line(f, "srun: error: n1: task 4294967296: Killed", 3);
    for (int r = 0; r < WORLD; r++)
        assert_int_equal(slurm_fault_is_over(f, r), r == 2 || r == 3);
    assert_string_equal(slurm_fault_exec(f), "/x/muster: No such file or directory");
    assert_int_equal(slurm_fault_due(f), 0);
    slurm_fault_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_wrong),
        cmocka_unit_test(agent),
        cmocka_unit_test(node),
        cmocka_unit_test(stepd),
        cmocka_unit_test(slurm),
        cmocka_unit_test(srun),
        cmocka_unit_test(tasks_that_ended),
        cmocka_unit_test(an_abort_is_no_scancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
