/* What nvidia-smi prints: any bytes are a topology that holds, or an error. */
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/js.h"
#include "topology/source.h"
#include "topology/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    if (topology_from_smi_text((const char *)data, size, "fuzz", &t, &err) < 0) {
        if (t || err.code == ERR_NONE)
            abort();
    } else {
        if (topology_validate(t, &err) < 0)
            abort();
        js_free(topology_json(t));
        topology_free(t);
    }
    err_release(&err);
    return 0;
}
