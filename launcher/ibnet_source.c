#include "launcher/ibnet_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/slurm_cmd.h"
#include "launcher/slurm_step.h"
#include "topology/ibnet_live.h"
#include "topology/source.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

int ibnet_source_helper(struct err *err)
{
    struct str text = STR_INIT;
    int rc = ibnet_live_read(&text, err);

    if (rc == 0)
        fwrite(text.text ? text.text : "", 1, text.len, stdout);
    str_release(&text);
    return rc;
}

/* An adapter with an InfiniBand port; RoCE has no fabric to walk. */
static int has_adapter(void)
{
    const struct sysfs live = { "" };
    char **names = sysfs_list(&live, "/sys/class/infiniband"), layer[32];
    int found = 0;

    for (char **p = names; *p && !found; p++)
        found = sysfs_read(&live, layer, sizeof(layer),
                           "/sys/class/infiniband/%s/ports/1/link_layer", *p) == 0 &&
                str_eq(layer, "InfiniBand");
    sysfs_list_free(names);
    return found;
}

/* 0; 1: it is not there (words: why); -1. */
static int ask(char *const argv[], const char *name, struct str *text,
               struct str *words, struct err *err)
{
    struct err e = ERR_INIT;
    int status = 0,
        rc = slurm_cmd_run(argv, name, IBNET_SOURCE_MS, text, words, &status, &e);

    if (rc < 0 && e.code == ERR_TIMEOUT)
        rc = err_set(
            err, ERR_TIMEOUT,
            "%s has not walked the fabric within %d s: is its subnet manager up?", name,
            IBNET_SOURCE_MS / 1000);
    else if ((rc < 0 && e.code == ERR_MISSING) || status == ERR_MISSING)
        rc = 1;
    else if (rc < 0)
        rc = err_set(err, e.code, "%s", err_text(&e));
    else if (status)
        rc = err_set(err, ERR_FAILED, "%s: %s", name,
                     words->len ? words->text : "it failed without a word");
    err_release(&e);
    return rc;
}

static int ask_either(struct str *text, struct err *err)
{
    char *self = slurm_self(err), *command[] = { (char *)"ibnetdiscover", NULL };
    char *library[] = { self, (char *)"agent", (char *)"ibnet", NULL };
    struct str why = STR_INIT, words = STR_INIT;
    int rc = self ? ask(library, "libibnetdisc", text, &why, err) : -1;

    if (rc > 0)
        rc = ask(command, "ibnetdiscover", text, &words, err);
    if (rc > 0)
        rc = err_set(err, ERR_MISSING,
                     "neither libibnetdisc (%s) nor the command ibnetdiscover is here "
                     "(apt-get install infiniband-diags)",
                     why.len ? why.text : "not built in");
    str_release(&why);
    str_release(&words);
    free(self);
    return rc;
}

int topology_from_ibnet_live(struct topology **out, struct err *err)
{
    struct str text = STR_INIT;
    int rc;

    if (!has_adapter())
        return err_set(
            err, ERR_MISSING,
            "no InfiniBand adapter here (/sys/class/infiniband): run it on a "
            "host that has one, or give what ibnetdiscover wrote there as "
            "ibnet:FILE");
    rc = ask_either(&text, err);
    if (rc == 0)
        rc = topology_from_ibnet_text(text.text ? text.text : "", text.len,
                                      "the fabric", out, err);
    str_release(&text);
    return rc;
}
