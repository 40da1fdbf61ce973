/* nic_counters.c - error counters of RDMA devices, as what was counted during the test:
 * their totals began at the last boot, and say nothing about now.
 *
 * InfiniBand's classic counters are narrow and stop at their highest value instead of
 * starting again (InfiniBand Architecture Specification 1.4, 16.1.3.5, PortCounters): one
 * that stands there counts nothing more. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/measure.h"
#include "checks/nic.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

/* Bit errors that a link may have, a share of the bits it carries: ibdiagnet's bound. */
static const double bit_errors = 1e-12;

enum { COUNTERS_A_CHECK = 4, CHECKS = 7, WIDE = 0 };
enum allowed { ALLOW_NONE, ALLOW_BIT_ERRORS };

/* bits: it stops at 2^bits - 1; WIDE: it does not. */
struct counter {
    const char *folder, *name;
    int bits;
};

/* Names of Linux' RDMA core (counters) and of mlx5 (hw_counters). */
static const struct group {
    const char *check;
    enum allowed allowed;
    struct counter of[COUNTERS_A_CHECK];
} groups[CHECKS] = {
    { "nic_link_downed",
      ALLOW_NONE,
      { { "counters", "link_downed", 8 }, { "counters", "link_error_recovery", 8 } } },
    { "nic_symbol_errors", ALLOW_BIT_ERRORS, { { "counters", "symbol_error", 16 } } },
    { "nic_receive_errors",
      ALLOW_BIT_ERRORS,
      { { "counters", "port_rcv_errors", 16 },
        { "counters", "local_link_integrity_errors", 4 },
        { "counters", "excessive_buffer_overrun_errors", 4 } } },
    { "nic_discards", ALLOW_NONE, { { "counters", "port_xmit_discards", 16 } } },
    { "nic_retransmits",
      ALLOW_NONE,
      { { "hw_counters", "packet_seq_err", WIDE },
        { "hw_counters", "local_ack_timeout_err", WIDE },
        { "hw_counters", "implied_nak_seq_err", WIDE },
        { "hw_counters", "roce_adp_retrans", WIDE } } },
    { "nic_rnr",
      ALLOW_NONE,
      { { "hw_counters", "rnr_nak_retry_err", WIDE },
        { "hw_counters", "out_of_buffer", WIDE } } },
    { "nic_congestion",
      ALLOW_NONE,
      { { "hw_counters", "np_cnp_sent", WIDE },
        { "hw_counters", "rp_cnp_handled", WIDE },
        { "hw_counters", "np_ecn_marked_roce_packets", WIDE } } },
};

struct device {
    char name[32];
    double gbits_per_s;
    double value[CHECKS][COUNTERS_A_CHECK]; /* NaN: not counted */
};

struct nic_counters {
    struct device *item;
    int n;
};

/* --- reading ------------------------------------------------------------------------ */

static double read_one(const struct sysfs *s, const struct nic *c,
                       const struct counter *what)
{
    char text[32], *end;
    double v;

    if (!what->name ||
        sysfs_read(s, text, sizeof(text), "/sys/class/infiniband/%s/ports/%d/%s/%s",
                   c->name, c->port, what->folder, what->name) < 0)
        return NAN;
    v = strtod(text, &end);
    return end != text && *end == '\0' && v >= 0 && isfinite(v) ? v : NAN;
}

struct nic_counters *nic_counters_read(const char *root, const struct topology *t)
{
    const struct node *n = nic_node(t);
    struct nic_counters *c = xcalloc(1, sizeof(*c));
    struct sysfs s = { root };

    c->item = xcalloc((size_t)(n ? n->n_nics : 0) + 1, sizeof(*c->item));
    for (int i = 0; n && i < n->n_nics; i++) {
        const struct nic *nic = &n->nics[i];
        struct device *d = &c->item[c->n];

        if (nic->kind != NIC_COMPUTE)
            continue;
        snprintf(d->name, sizeof(d->name), "%s", nic->name);
        d->gbits_per_s = nic->gbits_per_s;
        for (int g = 0; g < CHECKS; g++)
            for (int k = 0; k < COUNTERS_A_CHECK; k++)
                d->value[g][k] = read_one(&s, nic, &groups[g].of[k]);
        c->n++;
    }
    return c;
}

void nic_counters_free(struct nic_counters *c)
{
    if (!c)
        return;
    free(c->item);
    free(c);
}

/* --- judging ------------------------------------------------------------------------ */

struct sum {
    int counted, full, back; /* counters that count; that stopped; that were set back */
    double events;
    struct str text; /* of those that moved */
    const char *full_name;
};

static void add_counter(const struct counter *c, double before, double after,
                        struct sum *s)
{
    if (isnan(before) || isnan(after))
        return;
    s->counted++;
    if (after < before) {
        s->back++;
    } else if (after > before) {
        s->events += after - before;
        str_addf(&s->text, "%s%s +%.0f", s->text.len ? ", " : "", c->name,
                 after - before);
    } else if (c->bits != WIDE && after >= (double)((1 << c->bits) - 1)) {
        s->full++;
        s->full_name = c->name;
    }
}

static double allowed_an_hour(enum allowed a, double gbits_per_s)
{
    if (a == ALLOW_NONE)
        return 0;
    return gbits_per_s > 0 ? gbits_per_s * 1e9 * 3600 * bit_errors : NAN;
}

static void measure_group(int g, const struct device *before,
                          const struct device *after, double seconds, const char *host,
                          struct measures *out)
{
    struct measure *m = nic_add(out, groups[g].check, host, after->name);
    struct sum s = { .text = STR_INIT };

    for (int k = 0; k < COUNTERS_A_CHECK && groups[g].of[k].name; k++)
        add_counter(&groups[g].of[k], before->value[g][k], after->value[g][k], &s);
    measure_set(m, s.events, allowed_an_hour(groups[g].allowed, after->gbits_per_s),
                "events");
    m->seconds = seconds;
    if (s.text.len)
        measure_say(m, "%s", s.text.text);
    else if (!s.counted)
        measure_say(m, "not counted by this driver");
    else if (s.back)
        measure_none(m, "the counters were set back during the test");
    else if (s.full)
        measure_none(m,
                     "%s stands at its highest value and counts no more: set it back "
                     "(`perfquery -R`)",
                     s.full_name);
    str_release(&s.text);
}

void nic_counters_measure(const struct nic_counters *before,
                          const struct nic_counters *after, double seconds,
                          const char *host, struct measures *out)
{
    for (int i = 0; i < after->n; i++)
        for (int k = 0; k < before->n; k++)
            if (str_eq(after->item[i].name, before->item[k].name))
                for (int g = 0; g < CHECKS; g++)
                    measure_group(g, &before->item[k], &after->item[i], seconds, host,
                                  out);
}
