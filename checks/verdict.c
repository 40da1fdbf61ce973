#include "checks/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"

const char *verdict_result_name(enum verdict_result r)
{
    static const char *const names[] = { "pass", "fail", "unmeasured", "undecided" };

    return names[r];
}

void verdicts_add(struct verdicts *l, const struct verdict *v)
{
    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    l->item[l->n] = *v;
    if (!v->reason)
        l->item[l->n].reason = xstrdup("");
    l->n++;
}

void verdicts_release(struct verdicts *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->item[i].reason);
    free(l->item);
    memset(l, 0, sizeof(*l));
}

int verdicts_status(const struct verdicts *l)
{
    int no = 0, blind = 0;

    for (int i = 0; i < l->n; i++) {
        const struct verdict *v = &l->item[i];

        no |= v->result == VERDICT_FAIL || v->result == VERDICT_UNDECIDED;
        blind |= v->result == VERDICT_UNMEASURED && v->required;
    }
    return no ? 1 : blind ? 3 : 0;
}

static int holds(const struct strlist *l, const char *text)
{
    for (int i = 0; i < l->n; i++)
        if (str_eq(l->item[i], text))
            return 1;
    return 0;
}

void verdicts_exclude(const struct verdicts *l, struct strlist *nodes)
{
    for (int i = 0; i < l->n; i++) {
        const struct verdict *v = &l->item[i];

        if (v->result == VERDICT_FAIL && *v->node && !holds(nodes, v->node))
            strlist_add(nodes, v->node);
    }
}

static char *bytes_text(double v)
{
    static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    size_t i = 0;

    while (v >= 1024 && i + 1 < ARRAY_LEN(names)) {
        v /= 1024;
        i++;
    }
    return xasprintf(i == 0 || v >= 100 ? "%.0f %s" : "%.1f %s", v, names[i]);
}

char *verdict_number(double v, const char *unit)
{
    if (isnan(v))
        return xstrdup("-");
    if (isinf(v))
        return xstrdup("unlimited");
    if (strcmp(unit, "B") == 0)
        return bytes_text(v);
    if (fabs(v) >= 1e15) /* no more digits than a number has */
        return xasprintf("%.3g%s%s", v, *unit ? " " : "", unit);
    return xasprintf("%.*f%s%s",
                     v == floor(v)  ? 0
                     : fabs(v) < 10 ? 2
                                    : 1,
                     v, *unit ? " " : "", unit);
}

double verdict_ratio(const struct verdict *v)
{
    double ratio = v->measured / v->expected;

    return isfinite(ratio) && isfinite(v->expected) ? ratio : NAN;
}

static struct js *number(double v)
{
    return isinf(v) ? js_string("unlimited") : js_real(v);
}

static struct js *one_json(const struct verdict *v)
{
    struct js *o = js_object();

    js_put_str(o, "name", v->name);
    js_put_str(o, "object", v->object);
    js_put_str(o, "result", verdict_result_name(v->result));
    js_put(o, "expected", number(v->expected));
    js_put(o, "measured", number(v->measured));
    js_put(o, "ratio", number(verdict_ratio(v)));
    js_put_str(o, "unit", v->unit);
    js_put_str(o, "reason", v->reason);
    js_put_bool(o, "required", v->required);
    js_put_bool(o, "warning", v->warn);
    return o;
}

struct js *verdicts_json(const struct verdicts *l)
{
    struct js *o = js_document("check"), *all = js_array(), *out = js_array();
    struct strlist nodes = { 0 };

    verdicts_exclude(l, &nodes);
    for (int i = 0; i < l->n; i++)
        js_push(all, one_json(&l->item[i]));
    for (int i = 0; i < nodes.n; i++)
        js_push(out, js_string(nodes.item[i]));
    strlist_release(&nodes);
    js_put_int(o, "status", verdicts_status(l));
    js_put(o, "verdicts", all);
    js_put(o, "exclude", out);
    return o;
}
