/* Records of the kernel's log, and the Xids in them: an age is never negative, a number
 * never outside its range, a bus id always whole. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checks/kmsg.h"
#include "checks/xid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void see(void *arg, double age_s, const char *text)
{
    char busid[20];
    int xid = xid_in_line(text, busid);

    (void)arg;
    if (!(age_s >= 0) || strchr(text, '\n') || xid < 0)
        abort();
    if (xid > 0 && strlen(busid) >= sizeof(busid))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);

    kmsg_record(text, 1e5, 24, see, NULL);
    free(text);
    return 0;
}
