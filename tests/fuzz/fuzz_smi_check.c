/* What nvidia-smi printed, for muster check --replay: any bytes are readings that can be
 * judged, or an error. */
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "checks/judge.h"
#include "checks/measure.h"
#include "checks/replay_smi.h"
#include "checks/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);
    const struct judge plain = { 0 };
    struct measures m = { 0 };
    struct verdicts v = { 0 };
    struct err err = ERR_INIT;
    struct smi s = { 0 };

    if (smi_fits(text)) {
        if (smi_read(&s, text, "fuzz", &err) == 0)
            smi_measure(&s, &m);
        else if (err.code == ERR_NONE)
            abort();
        judge_all(&plain, &m, &v);
        if (v.n != m.n)
            abort();
    }
    verdicts_release(&v);
    measures_release(&m);
    smi_release(&s);
    err_release(&err);
    free(text);
    return 0;
}
