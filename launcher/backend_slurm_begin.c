/* backend_slurm_begin.c - what each rank of a step is told to start. */
#include <stdlib.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "launcher/rank_env.h"
#include "launcher/run_state.h"
#include "launcher/slurm_state.h"
#include "launcher/slurm_step.h"
#include "recipes/recipe.h"
#include "topology/place.h"

static void send_start(struct run *run, int rank)
{
    struct slurm *s = run->backend_data;
    struct task_start st = s->what;
    struct err err = ERR_INIT;
    struct env env;

    if (slurm_rank_env(run->q, rank, &env, &err) < 0) {
        run_end(run, (int)err.code, "start", rank, err_text(&err));
        err_release(&err);
        return;
    }
    slurm_master_set(&s->master, &env);
    rank_env_finish(&env, &s->start);
    st.env = (struct strlist){ .item = env.item, .n = env.n };
    st.cpus = (char *)run->plan[rank].cpus;
    st.net = run->q->placement->n_nodes == 1 || run_is_simulated(run->q) ? TASK_NET_NONE
             : run->q->command ? TASK_NET_NAMES
                               : TASK_NET_LOOK;
    st.bind = run->q->no_bind               ? TASK_BIND_NONE
              : rank_uses_gpu(run->q, rank) ? TASK_BIND_GPU
                                            : TASK_BIND_SHARE;
    task_server_start(s->agents, rank, &st);
    env_release(&env);
}

void slurm_take_master(struct run *run, const struct js *about)
{
    struct slurm *s = run->backend_data;

    if (!run->q->command)
        return;
    slurm_master_take(run->q, about, &s->master);
    if (s->master.port)
        s->start.master_port = s->master.port;
    if (*s->master.addr && !getenv("MASTER_ADDR"))
        log_info("MASTER_ADDR is %s: %s", s->master.addr, s->master.why);
}

/* A recipe's ranks meet by PMIx and need no MASTER_PORT: they start as they come. */
void slurm_begin(struct run *run, int rank)
{
    struct slurm *s = run->backend_data;

    if (!run->q->command) {
        send_start(run, rank);
        return;
    }
    for (int r = 1; rank == 0 && r < run->world; r++)
        if (s->there[r] && !run->rank[r].proc.ended)
            send_start(run, r);
    if (s->there[0])
        send_start(run, rank);
}
