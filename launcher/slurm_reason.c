#include "launcher/slurm_reason.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

/* The words of Slurm's job_reason_string(), 22.05 to 24.11.  Looked for in this order,
 * anywhere in the text. */
static const struct {
    const char *word;
    struct slurm_reason is;
} reasons[] = {
    { "PartitionNodeLimit",
      { SLURM_HOPE_NEVER,
        "more or fewer nodes than the partition gives one job: use other --gpus, or "
        "another cluster.slurm.partition" } },
    { "PartitionConfig",
      { SLURM_HOPE_NEVER, "more than the partition has or gives one job: use fewer "
                          "--gpus, or name another "
                          "cluster.slurm.partition" } },
    { "PartitionTimeLimit",
      { SLURM_HOPE_NEVER,
        "a longer time than the partition allows: lower cluster.slurm.time, or name "
        "another cluster.slurm.partition" } },
    { "PartitionDown",
      { SLURM_HOPE_HELP,
        "the partition is closed: name another cluster.slurm.partition, or ask its "
        "administrator" } },
    { "PartitionInactive",
      { SLURM_HOPE_HELP,
        "the partition starts no jobs: name another cluster.slurm.partition, or ask "
        "its administrator" } },
    { "BadConstraints",
      { SLURM_HOPE_NEVER,
        "no node has what was asked for: look at cluster.slurm.constraint, gres and "
        "args" } },
    { "DependencyNeverSatisfied",
      { SLURM_HOPE_NEVER, "the job that it depends on failed: take --dependency out of "
                          "cluster.slurm.args" } },
    { "JobHeldUser", { SLURM_HOPE_HELP, "it is held: `scontrol release` lets it go" } },
    { "JobHeldAdmin", { SLURM_HOPE_HELP, "an administrator holds it: ask why" } },
    { "JobHoldMaxRequeue",
      { SLURM_HOPE_HELP,
        "it was requeued too often and is held: `scontrol release`" } },
    { "InvalidAccount",
      { SLURM_HOPE_NEVER, "set cluster.slurm.account to one that you belong to "
                          "(`sacctmgr show associations user=$USER`)" } },
    { "InvalidQOS",
      { SLURM_HOPE_NEVER, "set cluster.slurm.qos to one that your account has" } },
    { "AccountNotAllowed",
      { SLURM_HOPE_NEVER,
        "the partition is not for this account: set cluster.slurm.account or "
        "cluster.slurm.partition" } },
    { "QOSNotAllowed",
      { SLURM_HOPE_NEVER, "the partition is not for this QOS: set cluster.slurm.qos or "
                          "cluster.slurm.partition" } },
    { "ReservationDeleted",
      { SLURM_HOPE_NEVER,
        "the reservation is gone: change cluster.slurm.reservation" } },
    { "DeadLine", { SLURM_HOPE_NEVER, "it cannot end before its deadline" } },
    { "MaxWallDuration",
      { SLURM_HOPE_NEVER,
        "a longer time than the account or QOS allows: lower cluster.slurm.time" } },
    { "PerJob",
      { SLURM_HOPE_NEVER,
        "more than the account or QOS gives one job: use fewer --gpus, or another "
        "cluster.slurm.qos or account" } },
    { "QOSMin",
      { SLURM_HOPE_NEVER, "less than the QOS wants: set another cluster.slurm.qos" } },
    { "ReqNodeNotAvail",
      { SLURM_HOPE_HELP, "nodes that it needs are down, drained or reserved" } },
    { "NodeDown", { SLURM_HOPE_HELP, "a node that it needs is down" } },
    { "Nodes required for job are DOWN, DRAINED",
      { SLURM_HOPE_HELP, "nodes that it needs are down, drained or reserved" } },
    { "FrontEndDown", { SLURM_HOPE_HELP, "no front end is up" } },
    { "SystemFailure",
      { SLURM_HOPE_HELP, "Slurm itself failed: ask its administrator" } },
    { "Licenses", { SLURM_HOPE_WAITS, "for a license" } },
    { "Reservation", { SLURM_HOPE_WAITS, "for its reservation to begin" } },
    { "Dependency", { SLURM_HOPE_WAITS, "for a job that it depends on" } },
    { "BeginTime", { SLURM_HOPE_WAITS, "for its time to begin" } },
    { "Priority", { SLURM_HOPE_WAITS, "others are before it" } },
    { "Resources", { SLURM_HOPE_WAITS, "for nodes to become free" } },
    { "Grp", { SLURM_HOPE_WAITS, "for what the account's or QOS's other jobs use" } },
    { "PerUser", { SLURM_HOPE_WAITS, "for what your other jobs use" } },
    { "PerAccount", { SLURM_HOPE_WAITS, "for what the account's other jobs use" } },
    { "MaxJobs", { SLURM_HOPE_WAITS, "for other jobs of the account to end" } },
};

struct slurm_reason slurm_reason_of(const char *reason)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (strstr(reason, reasons[i].word))
            return reasons[i].is;
    return (struct slurm_reason){ SLURM_HOPE_WAITS, "" };
}

const char *slurm_refusal_cure(const char *words)
{
    static const struct {
        const char *words, *cure;
    } refusals[] = {
        { "Invalid partition", "set cluster.slurm.partition to one of `sinfo`" },
        { "Invalid account", "set cluster.slurm.account to one that you belong to" },
        { "Invalid qos", "set cluster.slurm.qos to one that your account has" },
        { "Invalid QOS", "set cluster.slurm.qos to one that your account has" },
        { "Invalid feature",
          "set cluster.slurm.constraint to features of `sinfo -o %f`" },
        { "Requested reservation is invalid",
          "set cluster.slurm.reservation to one of `scontrol show reservation`" },
        { "access to the requested reservation",
          "ask to be let into the reservation, or "
          "leave cluster.slurm.reservation out" },
        { "time limit is invalid",
          "lower cluster.slurm.time, or name another cluster.slurm.partition" },
        { "Requested time limit",
          "lower cluster.slurm.time, or name another cluster.slurm.partition" },
        { "Requested node configuration is not available",
          "no nodes with that many GPUs and CPUs (cluster.gpus_per_node), features "
          "(cluster.slurm.constraint) or GRES (cluster.slurm.gres) exist in the "
          "partition" },
        { "Node count specification invalid",
          "the partition does not give one job that many nodes: use other --gpus, or "
          "another cluster.slurm.partition" },
        { "More processors requested",
          "use fewer --gpus, or another cluster.slurm.partition" },
        { "Invalid generic resource",
          "cluster.slurm.gres names what this cluster does not have (`sinfo -o %G`)" },
        { "Invalid node name", "cluster.slurm.exclude names a node that is not there" },
        { "violates accounting/QOS policy",
          "the account or QOS has no room for it: fewer --gpus, a lower "
          "cluster.slurm.time, another cluster.slurm.qos" },
        { "Access/permission denied", "ask Slurm's administrator for access" },
        { "User's group not permitted",
          "set cluster.slurm.partition to one that your groups may use" },
        { "Unable to contact slurm controller",
          "is Slurm's controller up (`scontrol ping`)?" },
        { "unrecognized option", "look at cluster.slurm.args" },
        { "invalid option", "look at cluster.slurm.args" },
    };

    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (strstr(words, refusals[i].words))
            return refusals[i].cure;
    return "";
}
