#include "launcher/backend.h"

#include "launcher/run.h"

const struct run_backend *backend_choose(const struct run_request *q)
{
    return q->slurm ? &backend_slurm : q->nodes ? &backend_agents : &backend_local;
}
