/* sim.h - ranks that only keep time: `cluster.device: sim`.
 *
 * A simulated rank meets the others, reports like a real one and sleeps through each
 * step for as long as a model of its own says.  No data is read, nothing is computed
 * and no communicator is made, so that 512 of them run on a small machine.  Nothing
 * here is a measurement: every line says "simulated", every object holds
 * "simulated": true.
 *
 * The model.  step = compute x (share that communication hides behind) + exposed
 * communication + optimizer, times the jitter of the slowest rank.
 *   compute      FLOPs (causal half of attention) and what checkpointing recomputes,
 *                over peak x efficiency x b/(b + half), b = tokens of a micro-batch
 *   collectives  ring on NVLink inside a node; between nodes a NIC for each GPU, whose
 *                bandwidth falls by a share for each doubling of the nodes (contention)
 * The coefficients are drawn from the seed around those of 8-GPU nodes of B200.  They
 * are not those of launcher/predict.h, and nobody tells the predictor.
 *
 * MUSTER_SIM in the environment, words with commas between:
 *   seed=N                other coefficients (1)
 *   time=F                sleep F times the step's time (1); what is reported stays
 *   slow=RANK@STEP:F      from that step on the rank computes F times as long; the
 *                         others wait for it
 *   wedge=RANK@STEP       it goes silent at that step: no heartbeat, deaf to signals
 *   hang=RANK@STEP        it stops there, its heartbeat goes on
 *   crash=RANK@STEP       dies of SIGSEGV
 *   exit=RANK@STEP:STATUS ends with that status
 *   leave=RANK@STEP       ends with status 0, without a word
 * The others wait, as they would in a collective, for MUSTER_COLL_TIMEOUT_MS. */
#ifndef TRAINER_SIM_H
#define TRAINER_SIM_H

#include <stdint.h>

struct err;
struct recipe;

/* Bytes of the device that is simulated, a B200. */
#define SIM_DEVICE       "B200"
#define SIM_DEVICE_BYTES 192265846784

enum sim_fault { SIM_SLOW, SIM_WEDGE, SIM_HANG, SIM_CRASH, SIM_EXIT, SIM_LEAVE };
enum { N_SIM_FAULTS = 6, SIM_MAX_STORY = 16 };

struct sim_story {
    uint64_t seed;
    double time;
    int n;
    struct sim_event {
        enum sim_fault what;
        int rank;
        int64_t step;
        double value; /* factor or status */
    } event[SIM_MAX_STORY];
};

/* `text` NULL or "": nothing happens.  ERR_USAGE names the word that is wrong. */
int sim_story_parse(const char *text, struct sim_story *out, struct err *err);

/* What the seed makes of the machine. */
struct sim_machine {
    double efficiency, half_tokens, hidden; /* hidden: share of overlap that works */
    double nvlink_gbps, nic_gbps;           /* GB/s of one GPU */
    double alpha_us, contention, jitter;
};

void sim_machine_draw(uint64_t seed, struct sim_machine *out);

/* Seconds of one step without jitter and faults.  The recipe's degrees and global
 * batch are numbers.  Pure. */
double sim_step_s(const struct sim_machine *m, const struct recipe *r,
                  int accumulation);
/* What rank makes of it at a step: its own share of jitter, and its slowness. */
double sim_rank_factor(const struct sim_machine *m, const struct sim_story *s, int rank,
                       int64_t step);

/* A whole run of this rank: reports and prints.  `met` is called when all ranks have
 * met; from then on *stop, which a signal may set, ends the run. */
int sim_run(const struct recipe *r, const volatile int *stop, void (*met)(void),
            struct err *err);

#endif
