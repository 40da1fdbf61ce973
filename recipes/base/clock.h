/* clock.h - time, in one place.
 *
 * Deadlines are milliseconds of the monotonic clock; -1 means none. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline int64_t clock_of_ms(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Never goes back; for waits. */
static inline int64_t clock_ms(void)
{
    return clock_of_ms(CLOCK_MONOTONIC);
}

static inline double clock_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds since 1970; for records. */
static inline double clock_wall_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void clock_nap_us(int64_t us)
{
    struct timespec t = { us / 1000000, us % 1000000 * 1000 };

    nanosleep(&t, NULL);
}

#ifdef __cplusplus
}
#endif
#endif
