/* host_look.h - what a host over SSH is, before anything of ours runs there.
 *
 * host_look_command() is run by the remote user's shell; it needs POSIX tools only and
 * writes lines "muster-look KEY VALUE", which host_look_parse() finds among whatever a
 * login prints.  A host is known by its boot id, never by its name. */
#ifndef LAUNCHER_HOST_LOOK_H
#define LAUNCHER_HOST_LOOK_H

struct err;
struct strlist;

struct host_look {
    char *asked;   /* the name it was asked for by; set by the caller */
    char *address; /* where its name led to here, numeric, or NULL; set by the caller */
    char *hostname; /* what it calls itself */
    char *boot_id;
    char *system, *machine; /* uname: "Linux", "x86_64" */
    char *glibc;            /* "2.36", or NULL: another libc */
    char *own_address;      /* where its own name leads to there, or NULL */
    int noexec;             /* programs in the home folder do not start */
    int nvidia;             /* the NVIDIA driver is loaded */
};

/* Constant text for ssh_run_start(). */
const char *host_look_command(void);

/* Fills what the lines say; ERR_FAILED names what is missing.  asked is borrowed by the
 * message; on failure nothing is held. */
int host_look_parse(const char *text, const char *asked, struct host_look *out,
                    struct err *err);
void host_look_release(struct host_look *h);

/* All of them together, all problems at once (ERR_FAILED): two names of one machine,
 * one name on two machines (case C19), and, with several hosts, a name that leads to
 * loopback (case C03).  What only deserves a word goes to `warnings`. */
int host_look_check(const struct host_look *h, int n, struct strlist *warnings,
                    struct err *err);

/* Do programs of this build run there?  ERR_FAILED says why not: system, architecture,
 * a glibc older than `glibc` (this build's, "2.36"), noexec. */
int host_look_fits(const struct host_look *h, const char *glibc, struct err *err);
/* The glibc that runs here. */
const char *host_look_own_glibc(void);

#endif
