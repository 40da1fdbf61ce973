/* Hostfiles and lists: any bytes are hosts with sound names, or an error. */
#include "base/err.h"
#include "fuzz.h"
#include "launcher/hostfile.h"
#include "topology/hostlist.h"

static void check(int rc, struct hosts *h, struct err *err)
{
    if (rc < 0 && err->code == ERR_NONE)
        abort();
    for (int i = 0; rc == 0 && i < h->n; i++)
        if (!hostlist_name_valid(h->item[i].name) || h->item[i].slots < 0 ||
            h->item[i].slots > HOSTFILE_SLOTS)
            abort();
    if (rc == 0)
        hosts_release(h);
    err_release(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct hosts h;
    char path[64], *text;
    int fd;

    if (size > 4096)
        return 0;
    fd = fuzz_file(data, size, path);
    check(hostfile_read(path, &h, &err), &h, &err);
    close(fd);
    text = strndup((const char *)data, size);
    check(hostfile_list(text, "--hosts", &h, &err), &h, &err);
    free(text);
    return 0;
}
