/* Hosts of one job are of one kind: who differs is named. */
#include "launcher/node_alike.h"
#include "test.h"
#include "topology/place.h"
#include "topology/topology.h"

static void add_node(struct topology *t, const char *name, int gpus, const char *model,
                     int nics, double gbits)
{
    struct node *n = topology_add_node(t);

    snprintf(n->name, sizeof(n->name), "%s", name);
    for (int i = 0; i < gpus; i++) {
        struct gpu *g = topology_add_gpu(n);
        snprintf(g->name, sizeof(g->name), "%s", model);
        g->memory_bytes = 80LL << 30;
    }
    for (int i = 0; i < nics; i++) {
        struct nic *c = topology_add_nic(n);
        c->kind = NIC_COMPUTE;
        c->gbits_per_s = gbits;
    }
}

static int order[] = { 3, 0, 1, 2 };
static struct placement on_gpus = { .n_nodes = 4, .order = order, .on_gpus = 1 };

static struct topology *cluster(int gpus, const char *model, int nics, double gbits)
{
    struct topology *t = topology_new("test", 0);

    add_node(t, "n1", 8, "H200", 8, 400);
    add_node(t, "n2", gpus, model, nics, gbits);
    add_node(t, "n3", 8, "H200", 8, 400);
    add_node(t, "n4", 8, "H200", 8, 400);
    return t;
}

static void refused(int gpus, const char *model, int nics, double gbits,
                    const char *text)
{
    struct topology *t = cluster(gpus, model, nics, gbits);
    struct err err = ERR_INIT;

    assert_err(nodes_alike(t, &on_gpus, &err), &err, ERR_FAILED, text);
    topology_free(t);
}

static void test_alike(void **state)
{
    struct topology *t = cluster(8, "H200", 8, 400);
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(nodes_alike(t, &on_gpus, &err), &err);
    topology_free(t);
}

static void test_differs(void **state)
{
    (void)state;
    refused(7, "H200", 8, 400, "node n2 has 7 GPUs, node n4 has 8 GPUs");
    refused(8, "H100", 8, 400,
            "node n2 has H100 of 80 GiB, node n4 has H200 of 80 GiB");
    refused(8, "H200", 7, 400,
            "node n2 has 7 compute NICs at 400 Gbit/s, node n4 has 8 compute NICs at");
    refused(8, "H200", 8, 200, "node n2 has 8 compute NICs at 200 Gbit/s");
}

/* Only the nodes that ranks are on count, and CPU ranks take what there is. */
static void test_others(void **state)
{
    struct topology *t = cluster(7, "H100", 1, 10);
    int some[] = { 3, 0 };
    struct placement few = { .n_nodes = 2, .order = some, .on_gpus = 1 },
                     cpus = { .n_nodes = 4, .order = order };
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(nodes_alike(t, &few, &err), &err);
    assert_ok(nodes_alike(t, &cpus, &err), &err);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_differs),
        cmocka_unit_test(test_others),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
