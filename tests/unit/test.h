/* test.h - cmocka and its prerequisites, in the order it wants them.
 *
 *   static void test_x(void **state) { assert_int_equal(...); }
 *   int main(void) { const struct CMUnitTest t[] = { cmocka_unit_test(test_x) };
 *                    return cmocka_run_group_tests(t, NULL, NULL); } */
#ifndef UNIT_TEST_H
#define UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

/* The call succeeded; else show why. */
#define assert_ok(call, err)                          \
    do {                                              \
        if ((call) != 0)                              \
            fail_msg("%s: %s", #call, err_text(err)); \
    } while (0)

/* The call failed with this code and its message holds this text. */
#define assert_err(call, err, want, part)                                          \
    do {                                                                           \
        if ((call) != -1)                                                          \
            fail_msg("%s did not fail", #call);                                    \
        if ((err)->code != (want) || !strstr(err_text(err), (part)))               \
            fail_msg("%s: code %d, %s (wanted %d, '%s')", #call, (int)(err)->code, \
                     err_text(err), (int)(want), (part));                          \
        err_release(err);                                                          \
    } while (0)

#endif
