/* SFTP replies: any bytes are packets, the begin of one, or refused. */
#include "base/err.h"
#include "base/str.h"
#include "fuzz.h"
#include "launcher/ssh_sftp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = STR_INIT;
    struct err err = ERR_INIT;
    struct sftp_reply r;

    str_add(&in, (const char *)data, size);
    while (sftp_parse(&in, &r, &err) == 1) {
        if (r.bytes < 9 || r.bytes > in.len || r.handle_bytes > sizeof(r.handle) ||
            strnlen(r.message, sizeof(r.message)) == sizeof(r.message))
            abort();
        sftp_drop(&in, &r);
    }
    err_release(&err);
    str_release(&in);
    return 0;
}
