/* ibnet_absent.c - in the place of ibnet_live.c, in a build without libibnetdisc's
 * header. */
#include "base/err.h"
#include "topology/ibnet_live.h"

int ibnet_live_read(struct str *out, struct err *err)
{
    (void)out;
    return err_set(
        err, ERR_MISSING,
        "this muster was built without libibnetdisc's header (apt-get install "
        "libibnetdisc-dev libibmad-dev, then make)");
}

int ibnet_live_text(void *fabric, struct str *out, struct err *err)
{
    (void)fabric;
    return ibnet_live_read(out, err);
}
