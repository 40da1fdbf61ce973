#include "launcher/backend.h"

const struct run_backend *backend_choose(const struct run_request *q)
{
    (void)q;
    return &backend_local;
}
