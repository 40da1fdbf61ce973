/* What a driver says about a GPU. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/catalogue.h"
#include "checks/judge_peers.h"
#include "checks/measure.h"
#include "checks/verdict.h"

/* How far under the median clock of its like a GPU may be, and over their temperature. */
static const double clock_share = 0.9, hotter = 15, near_slowdown = 3;
/* Of the highest clock, where no power cap explains it. */
static const double locked_share = 0.7;

enum { REASON_IDLE = 0x1, REASON_POWER_CAP = 0x4 };

static int is_busy(const struct measure *m)
{
    return str_eq(m->group, "busy");
}

static void warn(struct verdict *v, char *reason)
{
    v->warn = 1;
    v->reason = reason;
}

/* The measure of another name about the same GPU; NULL none. */
static const struct measure *of_same(const struct measures *all,
                                     const struct measure *m, const char *name)
{
    for (int i = 0; i < all->n; i++)
        if (str_eq(all->item[i].name, name) && str_eq(all->item[i].object, m->object) &&
            !isnan(all->item[i].value))
            return &all->item[i];
    return NULL;
}

/* --- clocks event reasons, case D06 -------------------------------------------------- */

enum grade { GRADE_GOOD, GRADE_INFO, GRADE_WARN, GRADE_FAIL };

/* The bits of nvml.h.  The software power cap is how a healthy GPU runs at full load. */
static const struct {
    unsigned bit;
    enum grade grade;
    const char *name;
} reasons[] = {
    { REASON_IDLE, GRADE_GOOD, "idle" },
    { 0x2, GRADE_WARN, "application clocks set below the maximum" },
    { REASON_POWER_CAP, GRADE_INFO, "software power cap (normal at full load)" },
    { 0x8, GRADE_FAIL, "hardware slowdown" },
    { 0x10, GRADE_INFO, "sync boost" },
    { 0x20, GRADE_WARN, "software thermal slowdown" },
    { 0x40, GRADE_FAIL, "hardware thermal slowdown" },
    { 0x80, GRADE_FAIL, "power brake: the power supply or the rack asks for less" },
    { 0x100, GRADE_INFO, "display clocks" },
};

/* A recording may hold any number; what is no mask is an unknown reason. */
static uint64_t mask_of(double v)
{
    return v >= 0 && v < 9e15 ? (uint64_t)v : UINT64_C(1) << 63;
}

static enum grade name_reasons(uint64_t mask, struct str *text)
{
    enum grade worst = GRADE_GOOD;

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        if (!(mask & reasons[i].bit))
            continue;
        str_addf(text, "%s%s", text->len ? " + " : "", reasons[i].name);
        worst = reasons[i].grade > worst ? reasons[i].grade : worst;
        mask &= ~(uint64_t)reasons[i].bit;
    }
    if (mask)
        str_addf(text, "%sunknown reason 0x%llx", text->len ? " + " : "",
                 (unsigned long long)mask);
    return mask && worst < GRADE_INFO ? GRADE_INFO : worst;
}

static int is_slower(struct peers *p, const struct measure *m)
{
    const struct measure *clock = of_same(p->all, m, "gpu_clock");

    if (!clock || !is_busy(clock))
        return 0;
    peers_find(p, clock, 0);
    return p->n > 1 && clock->value < clock_share * p->median;
}

static void judge_throttle(const struct check *c, struct peers *p,
                           const struct measure *m, struct verdict *v)
{
    uint64_t mask = mask_of(m->value);
    struct str text = STR_INIT;
    enum grade worst = name_reasons(mask, &text);

    v->expected = NAN;
    if (worst == GRADE_FAIL) {
        v->result = VERDICT_FAIL;
        v->reason = xasprintf("%s; %s", text.text, c->cure);
    } else if (mask & REASON_IDLE && is_busy(m)) {
        warn(v, xasprintf("idle while a load runs: the load is not on this GPU"));
    } else if (worst == GRADE_WARN) {
        warn(v, xasprintf("%s; %s", text.text, c->cure));
    } else if (mask & REASON_POWER_CAP && is_slower(p, m)) {
        warn(v, xasprintf("%s, but its clock is more than 10 %% under the others'",
                          text.text));
    } else {
        v->reason = xstrdup(text.len ? text.text : "none");
    }
    str_release(&text);
}

/* --- PCIe, case D07 -------------------------------------------------------------------- */

/* The best limit among its like. */
static double best_limit(const struct measures *all, const struct measure *m)
{
    double best = m->need;

    for (int i = 0; i < all->n; i++)
        if (str_eq(all->item[i].name, m->name) && str_eq(all->item[i].kind, m->kind) &&
            all->item[i].need > best)
            best = all->item[i].need;
    return best;
}

static void judge_pcie_gen(const struct check *c, struct peers *p,
                           const struct measure *m, struct verdict *v)
{
    double best = best_limit(p->all, m);

    v->expected = m->need;
    if (m->value < m->need && !is_busy(m)) {
        v->result = VERDICT_UNMEASURED;
        v->reason =
            xasprintf("Gen%.0f of %.0f while it is idle, which lowers the link: "
                      "measure it under load",
                      m->value, m->need);
    } else if (m->value < m->need) {
        v->result = VERDICT_FAIL;
        v->reason = xasprintf("Gen%.0f under load, Gen%.0f is possible; %s", m->value,
                              m->need, c->cure);
    } else if (m->need < best) {
        warn(v,
             xasprintf("its limit is Gen%.0f, that of others of its kind Gen%.0f: the "
                       "slot, a riser or the BIOS",
                       m->need, best));
    } else if (m->text) {
        warn(v, xstrdup(m->text));
    }
}

static void judge_pcie_width(const struct check *c, struct peers *p,
                             const struct measure *m, struct verdict *v)
{
    double best = best_limit(p->all, m);

    v->expected = m->need;
    if (m->value < m->need) {
        v->result = VERDICT_FAIL;
        v->reason = xasprintf("x%.0f of x%.0f; %s", m->value, m->need, c->cure);
    } else if (m->need < best) {
        warn(v, xasprintf("its limit is x%.0f, that of others of its kind x%.0f: the "
                          "slot or a riser",
                          m->need, best));
    }
}

/* --- NVLinks ---------------------------------------------------------------------------- */

/* The only GPU of its machine (a virtual machine with one GPU of a host). */
static int is_alone(const struct measures *all, const struct measure *m)
{
    int n = 0;

    for (int i = 0; i < all->n; i++)
        n += str_eq(all->item[i].name, m->name) && str_eq(all->item[i].node, m->node);
    return n == 1;
}

static void judge_links(const struct check *c, struct peers *p, const struct measure *m,
                        struct verdict *v)
{
    if (isnan(m->need))
        peers_find(p, m, 0);
    v->expected = isnan(m->need) ? p->median : m->need;
    if (m->value >= v->expected) {
        v->reason = xstrdup(m->text);
        return;
    }
    if (m->value == 0 && is_alone(p->all, m)) {
        v->reason =
            xstrdup("none is up, and no other GPU is here that one could lead to");
        return;
    }
    v->result = VERDICT_FAIL;
    v->reason = xasprintf("%.0f of %.0f NVLinks are up%s%s; %s", m->value, v->expected,
                          m->text ? ": " : "", m->text ? m->text : "", c->cure);
}

/* One is too many; a card that does not count them (Blackwell's NVLinks) blocks nobody. */
static void judge_errors(const struct check *c, struct peers *p,
                         const struct measure *m, struct verdict *v)
{
    (void)p;
    v->expected = 0;
    if (m->value == 0)
        return;
    v->result = VERDICT_FAIL;
    v->reason = xasprintf("%.0f %s in %.1f s; %s", m->value,
                          m->text ? m->text : m->unit, m->seconds, c->cure);
}

/* --- clock and temperature -------------------------------------------------------------- */

static void judge_clock(const struct check *c, struct peers *p, const struct measure *m,
                        struct verdict *v)
{
    const struct measure *why = of_same(p->all, m, "gpu_throttle");
    int capped = why && (mask_of(why->value) & ~(uint64_t)REASON_IDLE) != 0;

    v->expected = NAN;
    if (!is_busy(m)) {
        v->reason = xstrdup("idle: says nothing");
        return;
    }
    peers_find(p, m, 0);
    v->expected = p->n > 1 ? p->median : m->need;
    if (p->n > 1 && m->value < clock_share * p->median)
        warn(v, xasprintf("%.0f %% of the median of %d others under the same load; %s",
                          100 * m->value / p->median, p->n - 1, c->cure));
    else if (!capped && m->value < locked_share * m->need)
        warn(v,
             xasprintf("%.0f of %.0f MHz under load and no reason for it: the clocks "
                       "are locked low; %s",
                       m->value, m->need, c->cure));
    else
        v->reason = xasprintf("of at most %.0f MHz", m->need);
}

/* Two alone: their median lies between them. */
static void judge_temperature(const struct check *c, struct peers *p,
                              const struct measure *m, struct verdict *v)
{
    double over;

    peers_find(p, m, 1);
    over = (m->value - p->median) * (p->n == 2 ? 2 : 1);
    v->expected = m->need;
    if (!isnan(m->need) && m->value > m->need - near_slowdown)
        warn(v, xasprintf("it slows down at %.0f C; %s", m->need, c->cure));
    else if (p->n > 1 && over > hotter)
        warn(v, xasprintf("%.0f C over the others of its node under the same load; %s",
                          over, c->cure));
}

/* --- all ---------------------------------------------------------------------------------- */

void judge_gpu(const struct check *c, struct peers *p, const struct measure *m,
               struct verdict *v)
{
    static const struct {
        const char *name;
        void (*judge)(const struct check *, struct peers *, const struct measure *,
                      struct verdict *);
    } all[] = {
        { "gpu_nvlinks", judge_links },     { "gpu_nvlink_errors", judge_errors },
        { "gpu_ecc_new", judge_errors },    { "gpu_throttle", judge_throttle },
        { "gpu_pcie_gen", judge_pcie_gen }, { "gpu_pcie_width", judge_pcie_width },
        { "gpu_clock", judge_clock },       { "gpu_temperature", judge_temperature },
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (str_eq(m->name, all[i].name))
            all[i].judge(c, p, m, v);
}
