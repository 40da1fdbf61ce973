/* Recordings for muster check --replay, of every kind: any bytes are measures that can be
 * judged, printed and written, or an error. */
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "checks/judge.h"
#include "checks/measure.h"
#include "checks/replay.h"
#include "checks/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const struct verdicts *v)
{
    for (int i = 0; i < v->n; i++) {
        free(verdict_number(v->item[i].measured, v->item[i].unit));
        free(verdict_number(v->item[i].expected, v->item[i].unit));
    }
    js_free(verdicts_json(v));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);
    const struct judge plain = { 0 };
    struct measures m = { 0 };
    struct verdicts v = { 0 };
    struct err err = ERR_INIT;

    if (replay_text(text, "fuzz", &m, &err) < 0 && err.code == ERR_NONE)
        abort();
    judge_all(&plain, &m, &v);
    if (v.n > m.n) /* references give none */
        abort();
    show(&v);
    for (int i = 0; i < m.n; i++)
        js_free(measure_json(&m.item[i]));
    verdicts_release(&v);
    measures_release(&m);
    err_release(&err);
    free(text);
    return 0;
}
