/* ibnetdiscover's output: any bytes are a fabric that holds, or an error. */
#include "fuzz.h"

#include "base/err.h"
#include "topology/fabric.h"
#include "topology/slurm_fabric.h"
#include "topology/source.h"
#include "topology/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    struct slurm_fabric f = { 0 };

    if (topology_from_ibnet_text((const char *)data, size, "fuzz", &t, &err) < 0) {
        if (t || err.code == ERR_NONE)
            abort();
    } else {
        if (topology_validate(t, &err) < 0)
            abort();
        fabric_inspect(t);
        if (slurm_fabric_of(t, &f, &err) == 0 && f.n < 1)
            abort();
        slurm_fabric_release(&f);
        topology_free(t);
    }
    err_release(&err);
    return 0;
}
