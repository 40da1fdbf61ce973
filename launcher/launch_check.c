#include "launcher/launch_check.h"

#include "base/err.h"
#include "base/log.h"
#include "checks/verdict.h"
#include "launcher/preflight.h"

static int blocks(const struct verdict *v)
{
    return v->result == VERDICT_FAIL || v->result == VERDICT_UNDECIDED ||
           (v->result == VERDICT_UNMEASURED && v->required);
}

static int refuse(const struct verdicts *l, int status, struct err *err)
{
    err_set(
        err, (enum err_code)status,
        "the checks speak against it, nothing was started (`muster check` shows all; "
        "--no-check starts all the same)");
    for (int i = 0; i < l->n; i++) {
        const struct verdict *v = &l->item[i];
        if (blocks(v))
            err_more(err, (enum err_code)status, "  %s %s, %s: %s",
                     verdict_result_name(v->result), v->name, v->object, v->reason);
    }
    return -1;
}

int launch_check(const struct preflight *q, struct strlist *bad, struct err *err)
{
    struct verdicts l = { 0 };
    int passed = 0, rc, status;

    if (preflight_run(q, &l, err) < 0) {
        verdicts_release(&l);
        return err_wrap(err, "checks before the launch");
    }
    status = verdicts_status(&l);
    for (int i = 0; i < l.n; i++)
        passed += l.item[i].result == VERDICT_PASS;
    if (status == 0)
        log_info("%d of %d checks passed, none speaks against it", passed, l.n);
    rc = status == 0 ? 0 : refuse(&l, status, err);
    if (rc < 0)
        verdicts_exclude(&l, bad);
    verdicts_release(&l);
    return rc;
}
