#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/js.h"
#include "base/mem.h"
#include "trainer/heartbeat.h"

static int open_pipe(const char *alive_ms)
{
    char text[16];
    int p[2];

    assert_int_equal(pipe(p), 0);
    snprintf(text, sizeof(text), "%d", p[1]);
    setenv("MUSTER_EVENT_FD", text, 1);
    setenv("MUSTER_ALIVE_MS", alive_ms, 1);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    return p[0] << 16 | p[1];
}

static struct js *next_line(FILE *fp)
{
    struct err err = ERR_INIT;
    char line[PIPE_BUF + 1];
    struct js *o;

    if (!fgets(line, sizeof(line), fp))
        return NULL;
    assert_ok(js_parse(line, strlen(line), "line", &o, &err), &err);
    return o;
}

static void expect(FILE *fp, const char *event, const char *key, const char *text)
{
    struct js *o = next_line(fp);

    assert_non_null(o);
    assert_int_equal(js_get_int(o, "rank", -1), 3);
    assert_true(js_get_real(o, "t", 0) > 1e9);
    assert_string_equal(js_str(o, "event", ""), event);
    if (key)
        assert_string_equal(js_str(o, key, ""), text);
    js_free(o);
}

static void test_events(void **state)
{
    int fds = open_pipe("0");
    FILE *fp = fdopen(fds >> 16, "r");
    struct js *fields = js_object(), *o;
    char *big = xcalloc(1, 8000);

    (void)state;
    heartbeat_open(3);
    heartbeat_open(4); /* does nothing */
    heartbeat_arrive("wireup");
    heartbeat_leave("wireup");
    js_put_int(fields, "step", 7);
    heartbeat_send("step", fields);
    expect(fp, "arrive", "stage", "wireup");
    expect(fp, "leave", "stage", "wireup");
    expect(fp, "step", NULL, NULL);
    memset(big, 'x', 7999);
    fields = js_object();
    js_put_str(fields, "text", big);
    heartbeat_send("error", fields);
    o = next_line(fp);
    assert_true(js_get_int(o, "too_long", 0) > 7999);
    js_free(o);
    heartbeat_close();
    heartbeat_send("step", js_object()); /* after the end: nothing */
    free(big);
    fclose(fp);
    close(fds & 0xffff);
}

static void test_alive(void **state)
{
    int fds = open_pipe("30");
    FILE *fp = fdopen(fds >> 16, "r");
    struct js *fields = js_object(), *o;

    (void)state;
    heartbeat_open(3);
    js_put_int(fields, "step", 42);
    heartbeat_send("step", fields);
    clock_nap_us(200000);
    heartbeat_close();
    expect(fp, "step", NULL, NULL);
    o = next_line(fp);
    assert_non_null(o);
    assert_string_equal(js_str(o, "event", ""), "alive");
    assert_int_equal(js_get_int(o, "step", -1), 42);
    js_free(o);
    fclose(fp);
    close(fds & 0xffff);
}

/* A full pipe holds nobody up; what is in it are whole lines. */
static void test_full_pipe(void **state)
{
    int fds = open_pipe("0");
    FILE *fp = fdopen(fds >> 16, "r");
    int64_t begun = clock_ms();
    int lines = 0;

    (void)state;
    heartbeat_open(3);
    for (int i = 0; i < 5000; i++)
        heartbeat_arrive("a stage with a name of some length");
    assert_true(clock_ms() - begun < 3000);
    for (struct js *o; (o = next_line(fp)); lines++)
        js_free(o);
    assert_in_range(lines, 100, 4999);
    heartbeat_close();
    fclose(fp);
    close(fds & 0xffff);
}

static void test_reader_gone(void **state)
{
    int fds = open_pipe("0");

    (void)state;
    heartbeat_open(3);
    close(fds >> 16);
    heartbeat_arrive("nobody listens"); /* SIGPIPE would end the test */
    heartbeat_arrive("still nobody");
    heartbeat_close();
    close(fds & 0xffff);
}

static void test_no_descriptor(void **state)
{
    (void)state;
    unsetenv("MUSTER_EVENT_FD");
    heartbeat_open(3);
    heartbeat_arrive("x");
    heartbeat_close();
    setenv("MUSTER_EVENT_FD", "999", 1); /* closed */
    heartbeat_open(3);
    heartbeat_arrive("x");
    heartbeat_close();
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_events),        cmocka_unit_test(test_alive),
        cmocka_unit_test(test_full_pipe),     cmocka_unit_test(test_reader_gone),
        cmocka_unit_test(test_no_descriptor),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
