/* The door to libibnetdisc, over a fabric that is made here in the library's own structs:
 * what it writes is read as ibnetdiscover's output is. */
#include "base/str.h"
#include "topology/ibnet_live.h"
#include "trees.h"

#if HAVE_IBNETDISC
#include <dlfcn.h>
#include <infiniband/ibnetdisc.h>

static void (*set_field)(void *, int, enum MAD_FIELDS, uint32_t);

static void make(ibnd_node_t *n, int type, uint64_t guid, const char *name, int ports,
                 ibnd_node_t *next)
{
    n->type = type;
    n->guid = guid;
    n->numports = ports;
    n->next = next;
    snprintf(n->nodedesc, sizeof(n->nodedesc), "%s", name);
    n->ports = xcalloc((size_t)ports + 1, sizeof(*n->ports));
}

static ibnd_port_t *port(ibnd_node_t *n, int number, uint32_t width, uint32_t ext)
{
    ibnd_port_t *p = xcalloc(1, sizeof(*p));

    p->node = n;
    p->portnum = number;
    set_field(p->info, 0, IB_PORT_LINK_WIDTH_ACTIVE_F, width);
    set_field(p->info, 0, IB_PORT_LINK_SPEED_ACTIVE_F, 4);
    set_field(p->info, 0, IB_PORT_LINK_SPEED_EXT_ACTIVE_F, ext);
    n->ports[number] = p;
    return p;
}

static void join(ibnd_port_t *a, ibnd_port_t *b)
{
    a->remoteport = b;
    b->remoteport = a;
}

static void release(ibnd_node_t *n)
{
    for (int i = 0; i <= n->numports; i++)
        free(n->ports[i]);
    free(n->ports);
}

static void test_text(void **state)
{
    void *mad = dlopen("libibmad.so.5", RTLD_NOW);
    void *found = mad ? dlsym(mad, "mad_set_field") : NULL;
    ibnd_node_t spine = { 0 }, leaf = { 0 }, hca[3] = { { 0 } };
    ibnd_fabric_t fabric = { .nodes = &spine };
    struct err err = ERR_INIT;
    struct str text = STR_INIT;
    struct topology *t = NULL;

    (void)state;
    if (!found)
        skip();
    memcpy(&set_field, &found, sizeof(found));
    make(&spine, IB_NODE_SWITCH, 0x2000, "MF0;spine0:MQM9700/U1", 64, &leaf);
    make(&leaf, IB_NODE_SWITCH, 0x1000, "MF0;leaf0:MQM9700/U1", 64, &hca[0]);
    for (int i = 0; i < 3; i++) {
        make(&hca[i], IB_NODE_CA, 0x9000 + (unsigned)i, i ? "gn1 mlx5_0" : "a \"b\"\nc",
             1, i < 2 ? &hca[i + 1] : NULL);
        join(port(&leaf, 1 + i, 2, 8), port(&hca[i], 1, i == 2 ? 16 : 2, 8));
    }
    join(port(&leaf, 33, 2, 8), port(&spine, 1, 2, 8));
    join(port(&leaf, 34, 2, 8), port(&spine, 2, 2, 8));
    port(&leaf, 40, 2, 0); /* no cable */
    assert_ok(ibnet_live_text(&fabric, &text, &err), &err);
    assert_ok(topology_from_ibnet_text(text.text, text.len, "live", &t, &err), &err);
    assert_int_equal(t->n_switches, 2);
    assert_string_equal(t->switches[0].name, "leaf0");
    assert_int_equal(t->n_links, 1);
    assert_int_equal(t->links[0].count, 2);
    assert_true(t->links[0].gbits_per_s == 400);
    assert_int_equal(t->n_nodes, 2); /* gn1, and one that names nobody */
    for (int i = 0; i < 2; i++)
        assert_int_equal(t->nodes[i].nics[0].leaf, 0);
    topology_free(t);
    str_release(&text);
    release(&spine);
    release(&leaf);
    for (int i = 0; i < 3; i++)
        release(&hca[i]);
    dlclose(mad);
}
#else
static void test_text(void **state)
{
    struct err err = ERR_INIT;
    struct str text = STR_INIT;

    (void)state;
    assert_err(ibnet_live_text(NULL, &text, &err), &err, ERR_MISSING,
               "built without libibnetdisc's header");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_text) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
