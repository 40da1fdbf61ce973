/* The picture: what must not lie on each other does not, all of it is inside, hostile
 * names stay text, and large clusters are cut. */
#include "trees.h"

#include "base/str.h"
#include "topology/emit.h"

static char *draw(const struct topology *t)
{
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t len;
    FILE *fp = open_memstream(&text, &len);

    assert_ok(topology_emit_svg(t, fp, &err), &err);
    fclose(fp);
    return text;
}

struct box {
    char class[16];
    double x, y, w, h;
};

/* The boxes whose class is one of `classes` (" gpu nic "), at most `room`. */
static int boxes_of(const char *svg, const char *classes, struct box *box, int room)
{
    int n = 0;

    for (const char *p = svg; (p = strstr(p, "<rect class=\"")); p++) {
        struct box b;
        char word[20];
        if (sscanf(p,
                   "<rect class=\"%15[^\"]\" x=\"%lf\" y=\"%lf\" width=\"%lf\" "
                   "height=\"%lf\"",
                   b.class, &b.x, &b.y, &b.w, &b.h) != 5)
            continue;
        snprintf(word, sizeof(word), " %s ", b.class);
        if (!strstr(classes, word))
            continue;
        assert_true(n < room);
        box[n++] = b;
    }
    return n;
}

static int count_class(const char *svg, const char *class)
{
    struct box box[2000];
    char classes[24];

    snprintf(classes, sizeof(classes), " %s ", class);
    return boxes_of(svg, classes, box, ARRAY_LEN(box));
}

/* Devices, switches and nodes lie beside each other, and inside the page. */
static void check_page(const char *svg)
{
    struct box box[2000];
    double w, h;
    int n = boxes_of(svg, " gpu nic pcie nvswitch leaf spine cell more ", box,
                     ARRAY_LEN(box));

    assert_int_equal(sscanf(strstr(svg, "viewBox"), "viewBox=\"0 0 %lf %lf\"", &w, &h),
                     2);
    for (int i = 0; i < n; i++) {
        assert_true(box[i].x >= 0 && box[i].y >= 0);
        assert_true(box[i].x + box[i].w <= w && box[i].y + box[i].h <= h);
        for (int k = 0; k < i; k++)
            if (box[i].x < box[k].x + box[k].w && box[k].x < box[i].x + box[i].w &&
                box[i].y < box[k].y + box[k].h && box[k].y < box[i].y + box[i].h)
                fail_msg("%s at %.0f,%.0f lies on %s at %.0f,%.0f", box[i].class,
                         box[i].x, box[i].y, box[k].class, box[k].x, box[k].y);
    }
}

static struct topology *rails(int nodes, int each, int spines)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *text =
        xasprintf("nodes: {count: %d, prefix: n}\n"
                  "cpu: {sockets: 2, cores: 16, threads: 16, numa_nodes: 2}\n"
                  "gpus: {per_node: 8, name: NVIDIA B200, memory: 180GiB, nvlinks: 18, "
                  "nvlink_gbytes_per_s: 900}\n"
                  "nics: {per_node: 8, gbits_per_s: 400}\n"
                  "fabric: {leaves: rail, nodes_per_leaf: %d, spines: %d, cables: 2}\n",
                  nodes, each, spines);

    if (topology_from_spec_text(text, strlen(text), "rails", &t, &err) < 0)
        fail_msg("%s", err_text(&err));
    free(text);
    return t;
}

static void test_sizes(void **state)
{
    static const int nodes[] = { 1, 2, 16, 64, 500 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        struct topology *t = rails(nodes[i], 32, nodes[i] > 1 ? 8 : 0);
        char *svg = draw(t);
        check_page(svg);
        assert_int_equal(count_class(svg, "leaf"), nodes[i] <= 32   ? 8
                                                   : nodes[i] == 64 ? 16
                                                                    : 40);
        assert_int_equal(count_class(svg, "cell"), nodes[i] == 500 ? 160 : nodes[i]);
        if (nodes[i] == 500)
            assert_non_null(strstr(svg, "and 11 more groups"));
        free(svg);
        topology_free(t);
    }
}

static void test_machine(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *dir = tree_make("hgx"), *svg;

    (void)state;
    assert_ok(topology_from_host(dir, &t, &err), &err);
    svg = draw(t);
    check_page(svg);
    assert_int_equal(count_class(svg, "pcie"), 8);
    assert_int_equal(count_class(svg, "strip"), 2);
    assert_int_equal(count_class(svg, "nic"), 11);
    assert_int_equal(count_class(svg, "fail"), 2); /* GPU 3, and in the legend */
    assert_non_null(strstr(svg, ">storage NIC<"));
    free(svg);
    topology_free(t);
    tree_remove(dir);
}

/* A cable on another group's leaf: the node stays in its group, the cable is drawn. */
static void test_miswire(void **state)
{
    struct topology *t = rails(64, 32, 8);
    char *svg;

    (void)state;
    t->nodes[4].nics[2].leaf = 13;
    t->links[0].count = 1;
    topology_find(t, SEVERITY_FAIL, "n05 mlx5_2", "miswired");
    svg = draw(t);
    check_page(svg);
    assert_non_null(strstr(svg, ">2 groups by leaf<"));
    assert_non_null(strstr(svg, "<line class=\"wrong\""));
    assert_non_null(strstr(svg, "<line class=\"thin\""));
    assert_non_null(strstr(svg, ">33 NICs, rail 5<"));
    assert_int_equal(count_class(svg, "fail"), 2);
    free(svg);
    topology_free(t);
}

static void test_hostile(void **state)
{
    struct topology *t = rails(2, 32, 1);
    char *svg;

    (void)state;
    snprintf(t->nodes[0].name, 64, "</text><script>alert(\"1\")&\x01\xff");
    snprintf(t->switches[0].name, 64, "%s", "\"onload=\"x");
    svg = draw(t);
    check_page(svg);
    assert_null(strstr(svg, "<script"));
    assert_null(strstr(svg, "\"onload"));
    assert_non_null(strstr(svg, "&lt;script&gt;"));
    assert_null(strchr(svg, '\x01'));
    assert_null(strchr(svg, '\xff'));
    free(svg);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_miswire),
        cmocka_unit_test(test_hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
