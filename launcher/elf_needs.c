#include "launcher/elf_needs.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

enum { MOST_PHDRS = 256, MOST_DYNAMIC = 1 << 20, MOST_STRINGS = 64 << 20 };

struct elf {
    const char *path;
    int fd;
    int64_t bytes;
    Elf64_Phdr *phdr;
    int n_phdr;
};

static int damaged(const struct elf *e, struct err *err)
{
    return err_set(err, ERR_USAGE, "%s is a damaged ELF file", e->path);
}

/* n bytes at `at`, checked against the file's size; NULL: it is damaged.  The caller's
 * to free(). */
static void *part(const struct elf *e, uint64_t at, uint64_t n, uint64_t most,
                  struct err *err)
{
    void *out;

    if (n == 0 || n > most || at > (uint64_t)e->bytes || n > (uint64_t)e->bytes - at) {
        damaged(e, err);
        return NULL;
    }
    out = xcalloc(1, n + 1);
    if (file_read(e->fd, e->path, out, n, (int64_t)at, err) == 0)
        return out;
    free(out);
    return NULL;
}

static int read_head(struct elf *e, struct err *err)
{
    static const unsigned char native =
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    Elf64_Ehdr h;

    if (e->bytes < (int64_t)sizeof(h) ||
        file_read(e->fd, e->path, &h, sizeof(h), 0, err) < 0 ||
        memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_ident[EI_DATA] != native)
        return err_set(err, ERR_USAGE, "%s is no 64-bit ELF file of this machine",
                       e->path);
    if (h.e_phnum > MOST_PHDRS || h.e_phentsize != sizeof(Elf64_Phdr))
        return damaged(e, err);
    e->n_phdr = h.e_phnum;
    e->phdr = part(e, h.e_phoff, h.e_phnum * sizeof(Elf64_Phdr),
                   MOST_PHDRS * sizeof(Elf64_Phdr), err);
    return e->phdr ? 0 : -1;
}

/* Where an address of the loaded object lies in the file; -1: nowhere. */
static int64_t place_of(const struct elf *e, uint64_t address)
{
    for (int i = 0; i < e->n_phdr; i++) {
        const Elf64_Phdr *p = &e->phdr[i];
        if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
            address - p->p_vaddr < p->p_filesz)
            return (int64_t)(address - p->p_vaddr + p->p_offset);
    }
    return -1;
}

static void add_names(const Elf64_Dyn *d, size_t n, const char *names, uint64_t bytes,
                      struct strlist *out)
{
    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++)
        if (d[i].d_tag == DT_NEEDED && d[i].d_un.d_val < bytes)
            strlist_add(out, names + d[i].d_un.d_val);
}

static int read_dynamic(const struct elf *e, const Elf64_Phdr *p, struct strlist *out,
                        struct err *err)
{
    Elf64_Dyn *d = part(e, p->p_offset, p->p_filesz, MOST_DYNAMIC, err);
    size_t n = p->p_filesz / sizeof(*d);
    uint64_t strings = 0, bytes = 0;
    char *names;
    int64_t at;

    if (!d)
        return -1;
    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
        if (d[i].d_tag == DT_STRTAB)
            strings = d[i].d_un.d_ptr;
        if (d[i].d_tag == DT_STRSZ)
            bytes = d[i].d_un.d_val;
    }
    at = place_of(e, strings);
    names = at < 0 ? NULL : part(e, (uint64_t)at, bytes, MOST_STRINGS, err);
    if (names)
        add_names(d, n, names, bytes, out);
    free(names);
    free(d);
    return names ? 0 : damaged(e, err);
}

int elf_needs(const char *path, struct strlist *out, struct err *err)
{
    struct elf e = { .path = path };
    int rc;

    if (file_open(path, &e.fd, &e.bytes, err) < 0)
        return -1;
    rc = read_head(&e, err);
    for (int i = 0; rc == 0 && i < e.n_phdr; i++)
        if (e.phdr[i].p_type == PT_DYNAMIC) {
            rc = read_dynamic(&e, &e.phdr[i], out, err);
            break;
        }
    free(e.phdr);
    close(e.fd);
    return rc;
}
