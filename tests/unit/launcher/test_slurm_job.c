/* slurm_job: one line of squeue's, as each phase of a job looks on Slurm 22.05. */
#include "test.h"

#include "base/mem.h"
#include "launcher/slurm_job.h"

static const struct {
    const char *line;
    enum slurm_job_phase phase;
    int restarts, preempted;
    int64_t left;
    const char *state, *reason;
} lines[] = {
    { "PENDING|Resources|0|N/A|1-02:03:04|\n", SLURM_JOB_WAITS, 0, 0, 93784, "PENDING",
      "Resources" },
    { "PENDING|BeginTime|1|N/A|30:00|", SLURM_JOB_WAITS, 1, 0, 1800, "PENDING",
      "BeginTime" },
    { "RUNNING|None|0|N/A|0:07|", SLURM_JOB_RUNS, 0, 0, 7, "RUNNING", "None" },
    { "RUNNING|None|2|2026-11-30T16:24:05|INVALID|", SLURM_JOB_RUNS, 2, 1, -1,
      "RUNNING", "None" },
    { "CONFIGURING|None|0|N/A|UNLIMITED|", SLURM_JOB_RUNS, 0, 0, -1, "CONFIGURING",
      "None" },
    { "COMPLETING|NodeDown|0|N/A|0:00|", SLURM_JOB_ENDS, 0, 0, 0, "COMPLETING",
      "NodeDown" },
    { "TIMEOUT|TimeLimit|0|N/A|0:00|", SLURM_JOB_OVER, 0, 0, 0, "TIMEOUT",
      "TimeLimit" },
    { "A_STATE_OF_TOMORROW|ReqNodeNotAvail, UnavailableNodes:n1|0|N/A||",
      SLURM_JOB_OVER, 0, 0, -1, "A_STATE_OF_TOMORROW",
      "ReqNodeNotAvail, UnavailableNodes:n1" },
};

static void test_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct slurm_job job;
        assert_int_equal(slurm_job_line(lines[i].line, &job), 0);
        assert_int_equal(job.phase, lines[i].phase);
        assert_int_equal(job.restarts, lines[i].restarts);
        assert_int_equal(job.preempted, lines[i].preempted);
        assert_int_equal(job.time_left_s, lines[i].left);
        assert_string_equal(job.state, lines[i].state);
        assert_string_equal(job.reason, lines[i].reason);
    }
}

static void test_others_are_refused(void **state)
{
    static const char *const bad[] = { "", "\n", "PENDING", "PENDING|a|b|c|d",
                                       "slurm_load_jobs error: no" };
    struct slurm_job job;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(slurm_job_line(bad[i], &job), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_others_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
