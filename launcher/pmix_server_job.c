#include "launcher/pmix_server_job.h"

#include <pmix.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

static void add(void *list, const char *key, const void *value, pmix_data_type_t type)
{
    if (PMIx_Info_list_add(list, key, value, type) != PMIX_SUCCESS)
        abort(); /* memory */
}

static void add_u32(void *list, const char *key, int value)
{
    uint32_t v = (uint32_t)value;

    add(list, key, &v, PMIX_UINT32);
}

static void add_u16(void *list, const char *key, int value)
{
    uint16_t v = (uint16_t)value;

    add(list, key, &v, PMIX_UINT16);
}

static void add_rank(void *list, const char *key, int value)
{
    pmix_rank_t v = (pmix_rank_t)value;

    add(list, key, &v, PMIX_PROC_RANK);
}

static void add_flag(void *list, const char *key, int value)
{
    bool v = value;

    add(list, key, &v, PMIX_BOOL);
}

/* "0,1;2,3": the ranks of each node.  Also the ranks of one node. */
static void list_ranks(struct str *s, const struct pmixd_config *c, int node)
{
    const char *comma = "";

    for (int r = 0; r < c->world; r++)
        if (c->node_of[r] == node) {
            str_addf(s, "%s%d", comma, r);
            comma = ",";
        }
}

static int add_maps(void *list, const struct pmixd_config *c, struct err *err)
{
    struct str names = STR_INIT, ranks = STR_INIT;
    char *name_map = NULL, *rank_map = NULL;
    int rc = -1;

    for (int n = 0; n < c->n_nodes; n++) {
        str_addf(&names, "%s%s", n ? "," : "", c->node_name[n]);
        str_adds(&ranks, n ? ";" : "");
        list_ranks(&ranks, c, n);
    }
    if (PMIx_generate_regex(names.text, &name_map) != PMIX_SUCCESS ||
        PMIx_generate_ppn(ranks.text, &rank_map) != PMIX_SUCCESS) {
        err_set(err, ERR_SYSTEM, "PMIx cannot describe the nodes %s", names.text);
        goto out;
    }
    add(list, PMIX_NODE_MAP, name_map, PMIX_REGEX);
    add(list, PMIX_PROC_MAP, rank_map, PMIX_REGEX);
    rc = 0;
out:
    free(name_map);
    free(rank_map);
    str_release(&names);
    str_release(&ranks);
    return rc;
}

static int local_index(const struct pmixd_config *c, int rank)
{
    int n = 0;

    for (int r = 0; r < rank; r++)
        n += c->node_of[r] == c->node_of[rank];
    return n;
}

static void add_proc(void *list, const struct pmixd_config *c, int rank)
{
    void *one = PMIx_Info_list_start();
    pmix_data_array_t array;
    int local = local_index(c, rank);

    add_rank(one, PMIX_RANK, rank);
    add_rank(one, PMIX_GLOBAL_RANK, rank);
    add_rank(one, PMIX_APP_RANK, rank);
    add_u32(one, PMIX_APPNUM, 0);
    add_rank(one, PMIX_APPLDR, 0);
    add_u16(one, PMIX_LOCAL_RANK, local);
    add_u16(one, PMIX_NODE_RANK, local);
    add_u32(one, PMIX_NODEID, c->node_of[rank]);
    add(one, PMIX_HOSTNAME, c->node_name[c->node_of[rank]], PMIX_STRING);
    if (PMIx_Info_list_convert(one, &array) != PMIX_SUCCESS)
        abort();
    add(list, PMIX_PROC_DATA, &array, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
    PMIx_Info_list_release(one);
}

static int add_local(void *list, const struct pmixd_config *c)
{
    struct str peers = STR_INIT;
    int n = 0, leader = -1;

    for (int r = 0; r < c->world; r++)
        if (c->node_of[r] == c->node && n++ == 0)
            leader = r;
    list_ranks(&peers, c, c->node);
    add_u32(list, PMIX_LOCAL_SIZE, n);
    add_u32(list, PMIX_NODE_SIZE, n);
    if (n) {
        add(list, PMIX_LOCAL_PEERS, peers.text, PMIX_STRING);
        add_rank(list, PMIX_LOCALLDR, leader);
    }
    str_release(&peers);
    return n;
}

int pmixd_describe_job(const struct pmixd_config *c, pmix_data_array_t *array,
                       struct err *err)
{
    void *list = PMIx_Info_list_start();
    int n, rc = add_maps(list, c, err);

    if (rc < 0)
        goto out;
    add(list, PMIX_JOBID, c->nspace, PMIX_STRING);
    add_flag(list, PMIX_SPAWNED, 0);
    add_u32(list, PMIX_UNIV_SIZE, c->world);
    add_u32(list, PMIX_JOB_SIZE, c->world);
    add_u32(list, PMIX_MAX_PROCS, c->world);
    add_u32(list, PMIX_JOB_NUM_APPS, 1);
    add_u32(list, PMIX_NUM_NODES, c->n_nodes);
    add_u32(list, PMIX_NODEID, c->node);
    add(list, PMIX_TMPDIR, c->tmpdir, PMIX_STRING);
    add(list, PMIX_NSDIR, c->job_dir, PMIX_STRING);
    add_flag(list, PMIX_TDIR_RMCLEAN, 1);
    n = add_local(list, c);
    for (int r = 0; r < c->world; r++)
        add_proc(list, c, r);
    if (PMIx_Info_list_convert(list, array) != PMIX_SUCCESS)
        abort();
    rc = n;
out:
    PMIx_Info_list_release(list);
    return rc;
}

void pmixd_describe_server(const struct pmixd_config *c, pmix_data_array_t *array)
{
    char *name = xasprintf("muster.%d", (int)getpid());
    void *list = PMIx_Info_list_start();

    add(list, PMIX_SERVER_TMPDIR, c->tmpdir, PMIX_STRING);
    add(list, PMIX_SYSTEM_TMPDIR, c->tmpdir, PMIX_STRING);
    add(list, PMIX_HOSTNAME, c->node_name[c->node], PMIX_STRING);
    add(list, PMIX_SERVER_NSPACE, name, PMIX_STRING);
    add_rank(list, PMIX_SERVER_RANK, c->node);
    if (PMIx_Info_list_convert(list, array) != PMIX_SUCCESS)
        abort();
    PMIx_Info_list_release(list);
    free(name);
}
