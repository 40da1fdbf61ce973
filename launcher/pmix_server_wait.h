/* pmix_server_wait.h - wait for calls that libpmix finishes on its own thread.  Inner
 * to pmix_server.
 *
 *   struct pmixd_wait *w = pmixd_wait_new();
 *   pmixd_wait_expect(w);
 *   pmixd_wait_started(w, PMIx_...(..., pmixd_wait_wake, w));      any number of these
 *   pmixd_wait_finish(w, "PMIx_...", 30, &err);                    frees w
 *
 * No wait is for ever: the thread of libpmix 4.2 locks itself up when a client dies in
 * the middle of connecting (ptl_base_connection_hdlr.c, after "UNREACHABLE").  From
 * then on pmixd_is_stuck(), and nobody may call the library any more. */
#ifndef LAUNCHER_PMIX_SERVER_WAIT_H
#define LAUNCHER_PMIX_SERVER_WAIT_H

#include <pmix_server.h>

struct err;
struct pmixd_wait;

struct pmixd_wait *pmixd_wait_new(void);
void pmixd_wait_expect(struct pmixd_wait *w);
/* What the call itself returned: an answer follows only PMIX_SUCCESS. */
void pmixd_wait_started(struct pmixd_wait *w, pmix_status_t status);
void pmixd_wait_wake(pmix_status_t status, void *wait); /* the callback */
/* ERR_TIMEOUT when an answer does not come within patience_s. */
int pmixd_wait_finish(struct pmixd_wait *w, const char *call, int patience_s,
                      struct err *err);
int pmixd_is_stuck(void);

#endif
