/* NCCL's topology file, read as NCCL's own reader does and read back equal; its list of
 * HCAs. */
#include <ctype.h>

#include "trees.h"

#include "base/str.h"
#include "topology/emit.h"

typedef int emitter(const struct topology *t, FILE *fp, struct err *err);

static char *written(emitter *to, const struct topology *t)
{
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t len;
    FILE *fp = open_memstream(&text, &len);

    assert_ok(to(t, fp, &err), &err);
    fclose(fp);
    return text;
}

static char *emit(const struct topology *t)
{
    return written(topology_emit_ncclxml, t);
}

static struct topology *parse(const char *text)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    assert_ok(topology_from_ncclxml_text(text, strlen(text), "back", &t, &err), &err);
    return t;
}

/* --- NCCL's reader --------------------------------------------------------------------- */

/* One element as xmlGetNode() of NCCL 2.30 takes it: a name up to a blank, '/' or '>';
 * while a blank follows, NAME="VALUE" and the next character; then '>' or "/>". */
static const char *strict_element(const char *p, int *attributes, int *single)
{
    assert_int_equal(*p, '<');
    p++;
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    for (*attributes = 0; *p == ' '; (*attributes)++) {
        const char *name = ++p;
        while (isalnum((unsigned char)*p) || *p == '_')
            p++;
        assert_true(p > name && p - name < 255);
        assert_true(p[0] == '=' && p[1] == '"');
        name = p += 2;
        while (*p != '"') {
            assert_true((unsigned char)*p >= ' ');
            p++;
        }
        assert_true(p - name < 255);
        p++;
    }
    *single = *p == '/';
    p += *single;
    assert_int_equal(*p, '>');
    return p + 1;
}

static void strict_read(const char *p)
{
    char open[16][16];
    int depth = 0, elements = 0;

    while (*(p += strspn(p, " \n"))) {
        int attributes, single, closes = p[1] == '/';
        size_t n = strcspn(p + 1 + closes, " />");
        assert_true(n < 16);
        if (closes) {
            assert_true(depth > 0 && strncmp(open[--depth], p + 2, n) == 0);
            p = strchr(p, '>') + 1;
            continue;
        }
        assert_true(depth < 16);
        snprintf(open[depth], 16, "%.*s", (int)n, p + 1);
        p = strict_element(p, &attributes, &single);
        assert_true(attributes <= 16 && ++elements < 256);
        depth += !single;
    }
    assert_int_equal(depth, 0);
}

/* --- equal ----------------------------------------------------------------------------- */

static void test_recorded(void **state)
{
    static const char *const files[] = { "recorded/topo.xml", "a07_vm_flat.xml",
                                         "a07_vm_injected_bridges.xml",
                                         "a09_h100_four_switches.xml" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct err err = ERR_INIT;
        struct topology *t = NULL, *back;
        char *path = xasprintf("tests/cases/%s", files[i]), *text, *a, *b;
        assert_ok(topology_from_ncclxml(path, &t, &err), &err);
        text = emit(t);
        strict_read(text);
        back = parse(text);
        a = tree_json(t);
        b = tree_json(back);
        assert_string_equal(a, b);
        topology_free(t);
        topology_free(back);
        free(path);
        free(text);
        free(a);
        free(b);
    }
}

static const struct nic *nic_named(const struct node *n, const char *name)
{
    for (int i = 0; i < n->n_nics; i++)
        if (str_eq(n->nics[i].name, name))
            return &n->nics[i];
    fail_msg("no NIC %s", name);
    return NULL;
}

/* What sysfs shows of a machine, the file says: all but what NCCL has no word for. */
static void same_machine(const struct node *a, const struct node *b)
{
    assert_int_equal(a->n_gpus, b->n_gpus);
    assert_int_equal(a->n_pcis, b->n_pcis);
    assert_int_equal(a->n_numas, b->n_numas);
    assert_string_equal(a->arch, b->arch);
    assert_string_equal(a->cpu_vendor, b->cpu_vendor);
    assert_int_equal(a->cpu_family, b->cpu_family);
    assert_int_equal(a->cpu_version, b->cpu_version);
    for (int i = 0; i < a->n_numas; i++)
        assert_string_equal(a->numas[i].cpus, b->numas[i].cpus);
    for (int i = 0; i < a->n_gpus; i++) {
        const struct gpu *g = &a->gpus[i], *h = &b->gpus[i];
        assert_int_equal(g->index, h->index);
        assert_string_equal(g->busid, h->busid);
        assert_int_equal(g->numa, h->numa);
        assert_true(g->pcie_gbytes_per_s == h->pcie_gbytes_per_s);
        assert_string_equal(a->nics[g->nic].name, b->nics[h->nic].name);
    }
    for (int i = 0; i < b->n_nics; i++) {
        const struct nic *d = &b->nics[i], *c = nic_named(a, d->name);
        assert_string_equal(c->busid, d->busid);
        assert_int_equal(c->numa, d->numa);
        assert_int_equal(c->port, d->port);
        assert_string_equal(c->image_guid, d->image_guid);
        assert_true(c->gbits_per_s == d->gbits_per_s);
    }
}

/* NCCL's getters refuse the whole file where one device lacks one of these. */
static int count_linked(const char *text)
{
    static const char *const needed[] = { " class=\"", " link_speed=\"",
                                          " link_width=\"" };
    int count = 0;

    for (const char *p = text; (p = strstr(p, "<pci ")); p++, count++) {
        const char *end = strchr(p, '>');
        for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
            const char *at = strstr(p, needed[i]);
            if (!at || at > end)
                fail_msg("no%s\" in %.*s", needed[i], (int)(end - p), p);
        }
    }
    return count;
}

/* A virtual machine whose sysfs knows no link: NCCL's own words for unknown. */
static void test_no_link(void **state)
{
    struct topology *t = topology_new("test", 1), *back;
    struct node *n = &t->nodes[0];
    struct pci *d;
    char *text;

    (void)state;
    snprintf(n->name, sizeof(n->name), "vm");
    for (int i = 0; i < 2; i++) {
        d = topology_add_pci(n);
        snprintf(d->busid, sizeof(d->busid), "0000:0%d:00.0", 5 + i);
        snprintf(d->class, sizeof(d->class), i ? "" : "0x030200");
    }
    d->link_width = 8;
    snprintf(d->link_speed, sizeof(d->link_speed), "Unknown");
    snprintf(topology_add_gpu(n)->busid, 20, "0000:05:00.0");
    text = emit(t);
    strict_read(text);
    assert_int_equal(count_linked(text), 2);
    assert_non_null(strstr(text, "<pci busid=\"0000:05:00.0\" class=\"0x030200\" "
                                 "link_speed=\"\" link_width=\"0\">"));
    assert_non_null(strstr(text, "<pci busid=\"0000:06:00.0\" class=\"\" "
                                 "link_speed=\"Unknown\" link_width=\"8\"/>"));
    back = parse(text);
    assert_int_equal(back->nodes[0].pcis[0].link_width, -1);
    assert_string_equal(back->nodes[0].pcis[0].link_speed, "");
    topology_free(t);
    topology_free(back);
    free(text);
}

static void test_machine(void **state)
{
    static const char *const shapes[] = { "hgx", "vm" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct err err = ERR_INIT;
        struct topology *t = NULL, *back;
        char *dir = tree_make(shapes[i]), *text;
        assert_ok(topology_from_host(dir, &t, &err), &err);
        text = emit(t);
        strict_read(text);
        back = parse(text);
        if (i == 0) {
            assert_int_equal(t->nodes[0].n_nics, back->nodes[0].n_nics);
            assert_non_null(strstr(text, "<pci busid=\"0000:18:02.0\" "));
            assert_null(strstr(text, "0000:18:01.0")); /* a root port */
            assert_null(strstr(text, "0000:18:03.0")); /* the switch's own port */
            assert_non_null(strstr(text, "familyid=\"6\" modelid=\"143\""));
            same_machine(&t->nodes[0], &back->nodes[0]);
        }
        assert_true(count_linked(text) > 0);
        assert_null(strstr(text, "rank="));
        topology_free(t);
        topology_free(back);
        tree_remove(dir);
        free(text);
    }
}

/* --- refused -------------------------------------------------------------------------- */

static void refused_by(emitter *to, const struct topology *t, enum err_code code,
                       const char *part)
{
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t len;
    FILE *fp = open_memstream(&text, &len);

    assert_int_equal(to(t, fp, &err), -1);
    fclose(fp);
    assert_int_equal(err.code, code);
    if (!strstr(err_text(&err), part))
        fail_msg("'%s' is not in '%s'", part, err_text(&err));
    assert_string_equal(text, "");
    free(text);
    err_release(&err);
}

static void refused(const struct topology *t, enum err_code code, const char *part)
{
    refused_by(topology_emit_ncclxml, t, code, part);
}

static void test_refused(void **state)
{
    struct topology *one = tree_cluster(1, 8, 8), *two = tree_cluster(2, 8, 8);
    struct topology *none = tree_cluster(1, 0, 0);

    (void)state;
    refused(one, ERR_FAILED, "where GPU 0 hangs in the PCI tree is not known");
    refused(two, ERR_USAGE, "there are 2 here");
    refused(none, ERR_FAILED, "nothing to tell NCCL");
    topology_free(one);
    topology_free(two);
    topology_free(none);
}

/* NCCL's table holds 256 elements, the last of them no longer readable. */
static void test_too_large(void **state)
{
    struct topology *t = topology_new("test", 1);
    struct node *n = &t->nodes[0];
    char *text;

    (void)state;
    snprintf(n->name, sizeof(n->name), "big");
    for (int i = 0; i < 252; i++)
        snprintf(topology_add_pci(n)->busid, 20, "0000:%02x:00.0", i);
    snprintf(topology_add_gpu(n)->busid, 20, "0000:00:00.0");
    text = emit(t); /* system, cpu, gpu and 252 */
    strict_read(text);
    free(text);
    snprintf(topology_add_pci(n)->busid, 20, "0000:fe:00.0");
    refused(t, ERR_FAILED, "256 elements are more than the 255 that NCCL reads");
    topology_free(t);
}

/* --- NCCL_IB_HCA ------------------------------------------------------------------------ */

static void has_line(const char *text, const char *line)
{
    if (!strstr(text, line))
        fail_msg("no '%s' in:\n%s", line, text);
}

static void test_hca(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *dir = tree_make("hgx"), *text;

    (void)state;
    assert_ok(topology_from_host(dir, &t, &err), &err);
    text = written(topology_emit_hca, t);
    has_line(text,
             "\nexport NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,"
             "mlx5_5:1,mlx5_6:1,mlx5_7:1'\n");
    has_line(text, "\n#   mlx5_8: ");
    assert_null(strstr(text, "eth")); /* management: no HCA at all */
    free(text);
    topology_free(t);
    tree_remove(dir);
}

static void test_hca_differ(void **state)
{
    struct topology *t = tree_cluster(4, 2, 2);
    char *text = written(topology_emit_hca, t);

    (void)state;
    has_line(text, "\n# n[1-4]: 2 compute HCAs\nexport NCCL_IB_HCA='=mlx5_0::0,"
                   "mlx5_1::1'\n");
    free(text);
    t->nodes[1].nics[1].rail = 7;
    t->nodes[2].nics[0].up = 0;
    t->nodes[3].nics[0].kind = t->nodes[3].nics[1].kind = NIC_MANAGEMENT;
    text = written(topology_emit_hca, t);
    has_line(text,
             "\n# n3: 2 compute HCAs; not among them or down:\n#   mlx5_0: its port "
             "is down");
    has_line(text, "\nn2) export NCCL_IB_HCA='=mlx5_0::0,mlx5_1::7' ;;\n");
    has_line(text, "\nn4) unset NCCL_IB_HCA ;;\n");
    free(text);
    t->n_nodes = 3;
    snprintf(t->nodes[2].nics[0].name, 32, "x';reboot'");
    refused_by(topology_emit_hca, t, ERR_USAGE, "no name of a NIC for a shell");
    t->n_nodes = 4;
    topology_free(t);
    t = tree_cluster(1, 8, 33);
    refused_by(topology_emit_hca, t, ERR_FAILED, "33 compute HCAs, NCCL takes 32");
    topology_free(t);
    t = tree_cluster(1, 8, 0);
    refused_by(topology_emit_hca, t, ERR_FAILED, "no node has a compute HCA");
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded), cmocka_unit_test(test_machine),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_hca),      cmocka_unit_test(test_hca_differ),
        cmocka_unit_test(test_no_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
