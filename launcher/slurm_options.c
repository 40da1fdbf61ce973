#include "launcher/slurm_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/slurm_ask.h"
#include "launcher/slurm_container.h"
#include "recipes/recipe.h"
#include "recipes/slurm_signal.h"
#include "recipes/value.h"
#include "topology/slurm_gres.h"
#include "topology/slurm_record.h"

enum side { JOB = 1, STEP = 2, BOTH = 3, REFUSED = 0 };

/* ---- cluster.slurm.args ---- */

/* Long options by their names, short ones by their letter; a name that ends with - is
 * the beginning of several. */
static const struct {
    const char *name;
    enum side side;
} sides[] = {
    /* of the job */
    { "-A", JOB },
    { "account", JOB },
    { "-b", JOB },
    { "begin", JOB },
    { "-C", JOB },
    { "constraint", JOB },
    { "cluster-constraint", JOB },
    { "-M", JOB },
    { "clusters", JOB },
    { "comment", JOB },
    { "contiguous", JOB },
    { "deadline", JOB },
    { "-d", JOB },
    { "dependency", JOB },
    { "-x", JOB },
    { "exclude", JOB },
    { "exclusive", JOB },
    { "-F", JOB },
    { "nodefile", JOB },
    { "get-user-env", JOB },
    { "-G", JOB },
    { "gpus", JOB },
    { "gpus-", JOB },
    { "gres", JOB },
    { "-H", JOB },
    { "hold", JOB },
    { "-J", JOB },
    { "job-name", JOB },
    { "-L", JOB },
    { "licenses", JOB },
    { "mail-", JOB },
    { "mem", JOB },
    { "mem-per-", JOB },
    { "mincpus", JOB },
    { "nice", JOB },
    { "-k", JOB },
    { "no-kill", JOB },
    { "-w", JOB },
    { "nodelist", JOB },
    { "-N", JOB },
    { "nodes", JOB },
    { "-n", JOB },
    { "ntasks", JOB },
    { "ntasks-", JOB },
    { "-s", JOB },
    { "oversubscribe", JOB },
    { "-p", JOB },
    { "partition", JOB },
    { "priority", JOB },
    { "-q", JOB },
    { "qos", JOB },
    { "reboot", JOB },
    { "reservation", JOB },
    { "spread-job", JOB },
    { "switches", JOB },
    { "-t", JOB },
    { "time", JOB },
    { "time-min", JOB },
    { "tmp", JOB },
    { "use-min-nodes", JOB },
    { "wckey", JOB },
    { "burst-buffer", JOB },
    { "bb", JOB },
    { "bbf", JOB },
    { "delay-boot", JOB },
    { "prefer", JOB },
    { "gid", JOB },
    { "uid", JOB },
    /* of the step */
    { "bcast", STEP },
    { "compress", STEP },
    { "container-", STEP },
    { "cpu-bind", STEP },
    { "epilog", STEP },
    { "exact", STEP },
    { "export", STEP },
    { "-K", STEP },
    { "kill-on-bad-exit", STEP },
    { "-l", STEP },
    { "label", STEP },
    { "mpi", STEP },
    { "no-container-", STEP },
    { "overlap", STEP },
    { "propagate", STEP },
    { "prolog", STEP },
    { "resv-ports", STEP },
    { "slurmd-debug", STEP },
    { "task-epilog", STEP },
    { "task-prolog", STEP },
    { "-u", STEP },
    { "unbuffered", STEP },
    { "-X", STEP },
    { "disable-status", STEP },
    /* not with muster */
    { "-a", REFUSED },
    { "array", REFUSED },
    { "signal", REFUSED },
    { "requeue", REFUSED },
    { "no-requeue", REFUSED },
    { "wrap", REFUSED },
    { "jobid", REFUSED },
    { "het-group", REFUSED },
    { "pty", REFUSED },
    { "multi-prog", REFUSED },
    { "no-shell", REFUSED },
};

static int is_named(const char *option, const char *name)
{
    size_t n = strlen(name);

    if (name[0] == '-')
        return option[1] != '-' && strncmp(option, name, 2) == 0;
    return strncmp(option, "--", 2) == 0 && strncmp(option + 2, name, n) == 0 &&
           (name[n - 1] == '-' || !option[2 + n] || option[2 + n] == '=');
}

/* Of an option; a word that is none is on the side of the one before it. */
static enum side side_of(const char *word, enum side before)
{
    if (str_eq(word, ":"))
        return REFUSED;
    if (word[0] != '-')
        return before;
    for (size_t i = 0; i < ARRAY_LEN(sides); i++)
        if (is_named(word, sides[i].name))
            return sides[i].side;
    return BOTH;
}

static void add_args(const struct recipe *r, enum side wanted, struct strlist *out)
{
    enum side side = BOTH;

    for (int i = 0; r && i < r->cluster.slurm_args.n; i++) {
        const char *word = r->cluster.slurm_args.item[i];
        side = side_of(word, side);
        if (side & wanted)
            strlist_add(out, word);
    }
}

static int check_args(const struct recipe *r, struct err *err)
{
    enum side side = BOTH;

    for (int i = 0; r && i < r->cluster.slurm_args.n; i++) {
        side = side_of(r->cluster.slurm_args.item[i], side);
        if (side == REFUSED)
            return err_set(
                err, ERR_USAGE,
                "cluster.slurm.args: %s cannot stand there: muster starts one "
                "job and one step of its own making",
                r->cluster.slurm_args.item[i]);
    }
    return 0;
}

/* ---- how many nodes ---- */

static int gpus_of(const char *gres_text)
{
    struct gres gres;
    int64_t n;

    if (!gres_text || gres_parse(gres_text, &gres, NULL) < 0)
        return 0;
    n = gres_whole_gpus(&gres);
    gres_release(&gres);
    return n > 0 && n <= 1024 ? (int)n : 0;
}

int slurm_lists_meet(const char *a, const char *b)
{
    for (; a && *a; a += strcspn(a, ","), a += *a == ',')
        for (const char *p = b; p && *p; p += strcspn(p, ","), p += *p == ',')
            if (strcspn(a, ", ") == strcspn(p, ", ") &&
                strncmp(a, p, strcspn(a, ", ")) == 0)
                return 1;
    return 0;
}

static int most_gpus(const struct recipe *r, int *most, struct err *err)
{
    const char *partition = r ? r->cluster.slurm_partition : "";
    struct str text = STR_INIT;
    struct slurm_records nodes = { 0 };
    int rc = slurm_ask(SLURM_ASK_NODES, NULL, SLURM_ASK_MS, &text, err);

    if (rc == 0)
        rc = slurm_records_parse(text.text ? text.text : "", text.len, "Slurm's nodes",
                                 &nodes, err);
    for (int i = 0; rc == 0 && i < nodes.n; i++) {
        int n = gpus_of(slurm_record_get(&nodes.record[i], "Gres"));
        if (n > *most &&
            (!*partition ||
             slurm_lists_meet(slurm_record_get(&nodes.record[i], "Partitions"),
                              partition)))
            *most = n;
    }
    if (rc == 0)
        slurm_records_release(&nodes);
    str_release(&text);
    return rc;
}

int slurm_shape(const struct recipe *r, int world, int *nodes, int *per_node,
                struct err *err)
{
    int most = r && r->cluster.gpus_per_node > 0 ? r->cluster.gpus_per_node : 0;

    if (!most && most_gpus(r, &most, err) < 0)
        return err_wrap(err, "how many GPUs has a node?");
    if (!most)
        return err_set(err, ERR_MISSING,
                       "Slurm shows no node with GPUs%s%s: set cluster.gpus_per_node%s",
                       r && *r->cluster.slurm_partition ? " in partition " : "",
                       r ? r->cluster.slurm_partition : "",
                       r && *r->cluster.slurm_partition
                           ? ", or cluster.slurm.partition to one of `sinfo`"
                           : "");
    *per_node = most < world ? most : world;
    *nodes = (world + *per_node - 1) / *per_node;
    return 0;
}

/* ---- options of the job ---- */

static void add(struct strlist *out, const char *option, const char *value)
{
    char *word = xasprintf("%s%s", option, value);

    if (*value)
        strlist_add(out, word);
    free(word);
}

static void add_number(struct strlist *out, const char *option, int n)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", n);
    add(out, option, text);
}

/* Whole, in the form that every Slurm reads the same: D-HH:MM:SS. */
static void add_time(struct strlist *out, const char *text)
{
    int64_t s;
    char *word;

    if (value_duration(text, &s, NULL) < 0) {
        add(out, "--time=", str_eq(text, "unlimited") ? "UNLIMITED" : "");
        return;
    }
    word = xasprintf("%lld-%02d:%02d:%02d", (long long)(s / 86400),
                     (int)(s / 3600 % 24), (int)(s / 60 % 60), (int)(s % 60));
    add(out, "--time=", word);
    free(word);
}

static void add_gres(struct strlist *out, const char *wish, int per_node)
{
    if (!*wish)
        add_number(out, "--gres=gpu:", per_node);
    else if (!str_eq(wish, "none"))
        add(out, "--gres=", wish);
}

static void add_wishes(const struct recipe *r, struct strlist *out)
{
    add(out, "--partition=", r->cluster.slurm_partition);
    add(out, "--account=", r->cluster.slurm_account);
    add(out, "--qos=", r->cluster.slurm_qos);
    add_time(out, r->cluster.slurm_time);
    add(out, "--constraint=", r->cluster.slurm_constraint);
    add(out, "--exclude=", r->cluster.slurm_exclude);
    add(out, "--reservation=", r->cluster.slurm_reservation);
}

/* A batch job's goes to the batch shell, which is muster; else all of a step get it. */
static void add_signal(const struct recipe *r, int batch, struct strlist *out)
{
    struct str text = STR_INIT;
    struct slurm_signal s;

    if (slurm_signal_parse(r->cluster.slurm_signal, &s, NULL) < 0)
        return; /* the recipe was validated */
    s.batch_shell = batch;
    slurm_signal_add(&text, &s);
    add(out, "--signal=", text.text);
    str_release(&text);
}

static int options(const struct recipe *r, int world, int batch, struct strlist *out,
                   struct err *err)
{
    int nodes, per_node;

    if (check_args(r, err) < 0 || slurm_shape(r, world, &nodes, &per_node, err) < 0)
        return -1;
    add_number(out, "--nodes=", nodes + (r ? r->cluster.spares : 0));
    add_number(out, "--ntasks-per-node=", per_node);
    add_gres(out, r ? r->cluster.slurm_gres : "", per_node);
    strlist_add(out, "--job-name=muster");
    if (!batch) /* what a lost node means, muster decides, where it lives elsewhere */
        strlist_add(out, "--no-kill");
    if (r) {
        add_signal(r, batch, out);
        add_wishes(r, out);
    }
    add_args(r, JOB, out);
    return 0;
}

int slurm_alloc_options(const struct recipe *r, int world, struct strlist *out,
                        struct err *err)
{
    return options(r, world, 0, out, err);
}

int slurm_batch_options(const struct recipe *r, int world, struct strlist *out,
                        struct err *err)
{
    return options(r, world, 1, out, err);
}

char *slurm_needs_salloc(const struct recipe *r)
{
    struct strlist args = { 0 };
    char *why = NULL;

    add_args(r, JOB, &args);
    if (args.n)
        why = xasprintf("cluster.slurm.args has %s", args.item[0]);
    strlist_release(&args);
    for (char **v = environ; !why && *v; v++)
        if (strncmp(*v, "SALLOC_", 7) == 0)
            why = xasprintf("%.*s is set", (int)strcspn(*v, "="), *v);
    return why;
}

/* ---- options of the step ---- */

void slurm_step_options(const struct recipe *r, struct strlist *out)
{
    slurm_container_options(r, out);
    add_args(r, STEP, out);
}
