#include "checks/catalogue.h"

#include <string.h>

#include "base/js.h"
#include "base/mem.h"

static const struct check checks[] = {
    { "memlock", "host", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "B",
      "RDMA registers memory; with a limit it fails in the middle of a run",
      "/proc/self/limits, read inside a task",
      "unlimited where there are RDMA devices, else nothing",
      "set LimitMEMLOCK=infinity for the daemon that starts tasks (slurmd, sshd); "
      "`ulimit -l` of a login shell says nothing about it" },
    { "nofile", "host", LEVEL_QUICK, 0, JUDGE_AT_LEAST, "files",
      "every rank keeps sockets to its peers", "/proc/self/limits, read inside a task",
      "64 and 8 a rank of the world, at least 1025",
      "raise LimitNOFILE of the daemon that starts tasks" },
    { "shm", "host", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "B",
      "ranks of a node exchange through files in /dev/shm", "statvfs of /dev/shm",
      "ranks on the node x segments a rank x bytes a segment (NCCL: 2 of 9637888, "
      "MPI: 1 of 4 MiB)",
      "enlarge it (containers: --shm-size, or --ipc=host), and remove what is stale" },
    { "shm_stale", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "files",
      "segments of killed jobs fill /dev/shm",
      "/dev/shm/nccl-* and the maps of live processes", "none", "remove them" },
    { "disk", "host", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "B",
      "a checkpoint that does not fit ends the run", "statvfs of checkpoint.folder",
      "12 B a parameter for each checkpoint kept, and one being written",
      "free space, lower checkpoint.keep, or move checkpoint.folder" },
    { "memory", "host", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "B",
      "a rank without memory is killed", "MemAvailable of /proc/meminfo",
      "ranks on the node x what memplan predicts (CPU ranks)",
      "end other programs, or use fewer ranks, a smaller batch or checkpointing" },
    { "resolve", "host", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "a host that calls itself 127.0.1.1 sends the others to themselves",
      "the resolver, for the host's own name", "none with several machines",
      "remove the 127.0.1.1 line of /etc/hosts, or set MASTER_ADDR to a routable "
      "name" },
    { "interface", "host", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "NCCL_SOCKET_IFNAME that matches nothing stops NCCL at its start",
      "getifaddrs and NCCL_SOCKET_IFNAME", "none", "name an interface that exists" },
    { "clock", "host", LEVEL_QUICK, 0, JUDGE_AT_MOST, "s",
      "logs and leases of nodes with different clocks contradict each other",
      "CLOCK_REALTIME of all nodes after a barrier",
      "1 s between the first and the last", "start chronyd or ntpd" },
    { "governor", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "CPUs",
      "a CPU that saves power launches kernels late",
      "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", "'performance'",
      "cpupower frequency-set -g performance" },
    { "hugepages", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "faults",
      "large host buffers cost many page faults without them",
      "/sys/kernel/mm/transparent_hugepage/enabled", "'always' or 'madvise'",
      "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" },
    { "leftovers", "host", LEVEL_QUICK, 1, JUDGE_NONE, "processes",
      "ranks of a dead run hold memory and devices",
      "/proc: muster-train and muster-probe whose launcher is gone", "none",
      "end them: kill -9 PID" },
    { "load", "host", LEVEL_QUICK, 0, JUDGE_AT_MOST, "%",
      "a program of somebody else slows this node's ranks, and all others wait for "
      "them",
      "/proc/stat and /proc/PID/stat, twice in 200 ms", "10 % of all processors",
      "end it, or leave the node out" },
    { "oom_kills", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "processes",
      "what took the memory once may do so again",
      "/dev/kmsg of the last 24 hours, where it may be read", "none",
      "find who took the memory; leave some free beside the ranks" },
    { "clocksource", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "faults",
      "a slow clock makes every time stamp a system call",
      "/sys/devices/system/clocksource", "tsc, or its like of other machines",
      "look in dmesg why the kernel left tsc (\"unstable\"), and boot with "
      "tsc=reliable or repair the firmware" },
    { "numa_balancing", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "faults",
      "the kernel takes pages of bound ranks away to see who uses them",
      "/proc/sys/kernel/numa_balancing", "0 where there are several NUMA nodes",
      "sysctl kernel.numa_balancing=0" },
    { "iommu", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "devices",
      "translated addresses send traffic between GPUs and NICs over the CPU",
      "/sys/bus/pci/devices/*/iommu_group/type of GPUs and compute NICs",
      "off, or passed through (identity); a virtual machine needs it",
      "boot with iommu=pt, or switch it off in the firmware" },
    { "acs", "host", LEVEL_QUICK, 0, JUDGE_NONE, "ports",
      "GPUDirect goes over the CPU's root complex and back, at a fraction of the rate",
      "configuration space of the switch ports above GPUs (as root)",
      "no P2P redirect (ACS); a virtual machine's host needs it",
      "clear ACSCtl of these ports (setpci -s PORT ECAP_ACS+6.w=0), or in the "
      "firmware" },
    { "version_driver", "host", LEVEL_QUICK, 1, JUDGE_SAME, "",
      "NCCL between unlike drivers fails or is slow in ways that look like the network",
      "/proc/driver/nvidia/version of every node", "the same on all nodes",
      "install one driver on all of them" },
    { "version_kernel", "host", LEVEL_QUICK, 0, JUDGE_SAME, "",
      "a node that missed an update behaves differently",
      "/proc/sys/kernel/osrelease of every node", "the same on all nodes",
      "update the odd ones" },
    { "version_rdma", "host", LEVEL_QUICK, 0, JUDGE_SAME, "",
      "ports of unlike drivers differ in features and rates",
      "/sys/module of the NIC's driver, on every node", "the same on all nodes",
      "update the odd ones" },
    { "version_collectives", "host", LEVEL_QUICK, 1, JUDGE_SAME, "",
      "unlike NCCL or MPI libraries hang at the start, or choose other algorithms",
      "the library that the rank has loaded, on every node", "the same on all nodes",
      "make LD_LIBRARY_PATH and the packages the same" },
    { "version_muster", "host", LEVEL_QUICK, 1, JUDGE_SAME, "",
      "unlike builds lay out messages and groups differently",
      "version and contents of muster-probe, on every node", "the same on all nodes",
      "install one build, or let muster copy itself" },
    { "gpu_count", "gpu", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "GPUs",
      "a rank without a GPU ends the run at its start", "NVML",
      "the ranks that the plan puts on the node",
      "look at dmesg for the Xid of the one that is gone; reboot, or leave the node "
      "out" },
    { "version_cuda", "gpu", LEVEL_QUICK, 0, JUDGE_SAME, "",
      "an older driver refuses what a newer CUDA built", "NVML of every node",
      "the same on all nodes", "install one driver on all of them" },
    { "gpu_ecc_mode", "gpu", LEVEL_QUICK, 0, JUDGE_ADVICE, "faults",
      "without ECC a flipped bit ruins a run silently", "NVML",
      "on, where there is ECC", "nvidia-smi -e 1, then reset the GPU" },
    { "gpu_ecc_errors", "gpu", LEVEL_QUICK, 1, JUDGE_NONE, "errors",
      "a GPU that lost data once since its driver was loaded will again",
      "NVML: uncorrectable, volatile", "none",
      "reset the GPU or reboot; have it replaced if they come back" },
    { "gpu_remap", "gpu", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "a row that waits to be remapped still fails; one that cannot be needs a new GPU",
      "NVML: row remapping, page retirement", "nothing pending, nothing failed", "" },
    { "gpu_xid", "gpu", LEVEL_QUICK, 0, JUDGE_NONE, "Xids",
      "the driver wrote why a GPU failed, and nobody read it",
      "the kernel's log of the last 2 hours, and NVML's events while the check runs",
      "none of 48 56 57 58 62-65 68 69 73 74 79-81 92 95 119 120 (Azure's node health "
      "checks; 95 by NVIDIA's Xid list)",
      "reset the GPU or reboot; run `nvidia-bug-report.sh` if it comes back" },
    { "gpu_mig", "gpu", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "NCCL refuses or misnumbers the slices of a partitioned GPU", "NVML",
      "off, or not there", "nvidia-smi -mig 0 -i INDEX" },
    { "gpu_fabric", "gpu", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "CUDA ends with error 802 until the fabric manager has registered the GPU",
      "NVML", "completed, or no fabric at all",
      "systemctl status nvidia-fabricmanager; its version must be the driver's" },
    { "gpu_nvlinks", "gpu", LEVEL_QUICK, 1, JUDGE_GPU, "links",
      "one link less slows every collective of the node", "NVML",
      "what this model has (topology/gpu_model.c), else the median of its kind",
      "`nvidia-smi nvlink -s` shows which; reset the GPU, then have the board looked "
      "at" },
    { "gpu_power_cap", "gpu", LEVEL_QUICK, 0, JUDGE_AT_LEAST, "W",
      "a GPU with a lower cap than the others holds all of them up", "NVML",
      "the card's default", "nvidia-smi -pl WATTS" },
    { "gpu_persistence", "gpu", LEVEL_QUICK, 0, JUDGE_ADVICE, "faults",
      "every start waits for the driver to wake the GPU", "NVML", "on",
      "start nvidia-persistenced" },
    { "gpu_memory_used", "gpu", LEVEL_QUICK, 1, JUDGE_AT_MOST, "B",
      "what a dead run left is missing in this one",
      "NVML, before a rank opens the GPU",
      "512 MiB, as NVIDIA's resiliency extension allows",
      "end what holds it (nvidia-smi, fuser -v /dev/nvidia*), or reset the GPU" },
    { "gpu_processes", "gpu", LEVEL_QUICK, 0, JUDGE_NONE, "processes",
      "another program takes memory and time", "NVML, before a rank opens the GPU",
      "none", "end it: kill PID" },
    { "gpu_throttle", "gpu", LEVEL_STANDARD, 1, JUDGE_GPU, "bits",
      "a GPU that protects itself from heat or a weak supply runs at half its clock",
      "NVML, while products run", "no hardware slowdown, thermal limit or power brake",
      "look at fans, air, and power supply" },
    { "gpu_pcie_gen", "gpu", LEVEL_STANDARD, 0, JUDGE_GPU, "gen",
      "a slot that fell back halves the way to the NIC", "NVML, while products run",
      "what card and slot can do; the best of its kind",
      "reseat the card or its riser, look at the BIOS" },
    { "gpu_pcie_width", "gpu", LEVEL_STANDARD, 0, JUDGE_GPU, "lanes", "as gpu_pcie_gen",
      "NVML", "what card and slot can do; the best of its kind",
      "reseat the card or its riser" },
    { "gpu_clock", "gpu", LEVEL_STANDARD, 0, JUDGE_GPU, "MHz",
      "clocks that someone locked low stay so for the next job",
      "NVML, while products run",
      "90 % of the median of its kind; 70 % of its highest where nothing caps it",
      "nvidia-smi -rgc; nvidia-smi -rac" },
    { "gpu_temperature", "gpu", LEVEL_STANDARD, 0, JUDGE_GPU, "C",
      "the hottest GPU of a node slows down first", "NVML, while products run",
      "under its slowdown limit, and at most 15 C over the median of its node",
      "look at fans, air and the seat of its cooler" },
    { "gpu_nvlink_errors", "gpu", LEVEL_STANDARD, 0, JUDGE_GPU, "errors",
      "a link that starts again stops every collective", "NVML, over the whole check",
      "no replay and no recovery (DCGM fails from one)",
      "reset the GPU; have the board looked at if they come back" },
    { "gpu_nvlink_crc", "gpu", LEVEL_STANDARD, 0, JUDGE_RATE, "errors",
      "flits that are sent again take bandwidth", "NVML, over the whole check",
      "100 a second (DCGM)", "have the board looked at" },
    { "gpu_pcie_replays", "gpu", LEVEL_STANDARD, 0, JUDGE_RATE, "errors",
      "packets that are sent again take bandwidth", "NVML, over the whole check",
      "8 a minute (DCGM)", "reseat the card or its riser" },
    { "gpu_ecc_new", "gpu", LEVEL_STANDARD, 0, JUDGE_GPU, "errors",
      "a GPU that loses data under load ruins the run", "NVML, over the whole check",
      "none", "have it replaced" },
    { "probe", "run", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "ranks that cannot meet here cannot train here",
      "muster-probe on every rank, each wait with a deadline", "all ranks end well",
      "see the reason; `muster logs` shows what the rank said" },
    { "gemm_bits", "rank", LEVEL_QUICK, 1, JUDGE_BITS, "repeats",
      "a device that computes wrong values ruins a run silently",
      "the recipe's dense and expert products, repeated from the same inputs",
      "the same bits each time and on every device of one model; an odd one is named "
      "where at least 3 others agree",
      "leave the node out and have the device looked at" },
    { "gemm", "rank", LEVEL_STANDARD, 1, JUDGE_PEERS, "TFLOP/s",
      "the slowest rank sets the pace of all",
      "the recipe's QKV product, all ranks at the same time",
      "the median of its kind; of a GPU also 45 % of cores x highest clock x FLOP a "
      "core "
      "and clock of its compute capability",
      "look at its clock, power cap, temperature and what else runs there" },
    { "gemm_experts", "rank", LEVEL_STANDARD, 0, JUDGE_PEERS, "TFLOP/s",
      "as gemm, for the grouped products", "the recipe's experts, rows spread evenly",
      "the median of its kind", "as gemm" },
    { "memory_bandwidth", "gpu", LEVEL_STANDARD, 1, JUDGE_PEERS, "GB/s",
      "norms, optimizer and copies run at the speed of the memory",
      "copies of 2 GiB in the GPU's memory, read and write counted",
      "the median of its kind; also 65 % of memory clock x bus width x 2",
      "look for ECC errors and remapped rows; reset the GPU" },
    { "host_to_device", "gpu", LEVEL_STANDARD, 0, JUDGE_PEERS, "GB/s",
      "batches and checkpoints cross PCIe",
      "256 MiB of pinned memory, all ranks at once", "the median of its kind",
      "look at gpu_pcie_gen, gpu_pcie_width and the NUMA node" },
    { "device_to_host", "gpu", LEVEL_STANDARD, 0, JUDGE_PEERS, "GB/s",
      "as host_to_device", "as host_to_device", "the median of its kind",
      "as host_to_device" },
    { "memory_copy", "rank", LEVEL_STANDARD, 0, JUDGE_REFERENCE, "GB/s",
      "CPU ranks exchange by copying: their targets are computed from it",
      "memcpy of all ranks of the node at once, times CPUs a rank where there are "
      "fewer",
      "it is the reference", "" },
    { "all_gather.result", "group", LEVEL_QUICK, 1, JUDGE_NONE, "values",
      "a wrong byte in a weight ruins a run silently",
      "the trainer's own collectives, every group of the recipe",
      "every value is known beforehand",
      "run again; if it persists the machines or "
      "links of this group corrupt data" },
    { "reduce_scatter.result", "group", LEVEL_QUICK, 1, JUDGE_NONE, "values",
      "as all_gather.result, for gradients", "inputs whose FP32 sum is exact",
      "every value is known beforehand",
      "run again; if it persists the machines or "
      "links of this group corrupt data" },
    { "all_reduce.result", "group", LEVEL_QUICK, 1, JUDGE_NONE, "values",
      "as all_gather.result, between replicas", "inputs whose FP32 sum is exact",
      "every value is known beforehand",
      "run again; if it persists the machines or "
      "links of this group corrupt data" },
    { "all_gather", "group", LEVEL_STANDARD, 1, JUDGE_BUSBW, "GB/s",
      "weights wait for the slowest link of a shard group",
      "the recipe's largest layer (at least 8 MiB), median without the first iteration",
      "cost model on the discovered topology; CPU ranks: memory_copy",
      "look at the "
      "links of this group" },
    { "reduce_scatter", "group", LEVEL_STANDARD, 1, JUDGE_BUSBW, "GB/s",
      "gradients wait for the slowest link of a shard group", "as all_gather",
      "as all_gather", "look at the links of this group" },
    { "all_reduce", "group", LEVEL_STANDARD, 1, JUDGE_BUSBW, "GB/s",
      "replicas wait for the slowest link between them", "as all_gather",
      "as all_gather", "look at the links of this group" },
    { "nic_state", "nic", LEVEL_QUICK, 1, JUDGE_NONE, "ports",
      "a port that is down leaves its GPU to the NICs of the others",
      "/sys/class/infiniband", "active",
      "reseat or replace the cable; look at the switch's port and at the subnet "
      "manager" },
    { "nic_rate", "nic", LEVEL_QUICK, 1, JUDGE_USUAL, "Gb/s",
      "a link that came up with fewer lanes or at a lower speed slows every ring over "
      "it",
      "/sys/class/infiniband", "what more than half of the ports of its model have",
      "reseat or replace the cable; compare speed and width set at the switch's port" },
    { "nic_pcie", "nic", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "Gb/s",
      "a slot that fell back cannot feed the port",
      "/sys/bus/pci: the narrowest PCIe link on the NIC's way to the host",
      "the port's rate, or what both ends of the link can where that is less",
      "reseat the card or its riser, look at the BIOS" },
    { "nic_mtu", "nic", LEVEL_QUICK, 0, JUDGE_USUAL, "bytes",
      "packets of a smaller size cost more of them; two sides that differ lose some",
      "/sys/class/net, of RoCE ports (InfiniBand's is in no file)",
      "what more than half of the ports of its model have",
      "set the interface's MTU as on the others, and the switch's" },
    { "nic_gid", "nic", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "NCCL over the wrong GID hangs at its start, or sends what switches do not route",
      "/sys/class/infiniband: GIDs of RoCE ports, and NCCL_IB_GID_INDEX",
      "a RoCE v2 GID with an address that routes, the one that NCCL is told to take",
      "give the interface an address; leave NCCL_IB_GID_INDEX out or set it right" },
    { "nic_gid_same", "nic", LEVEL_QUICK, 0, JUDGE_SAME, "",
      "one NCCL_IB_GID_INDEX holds for all ranks", "as nic_gid",
      "the same on all ports",
      "make the addresses of the interfaces alike, or leave NCCL_IB_GID_INDEX out" },
    { "nic_firmware", "nic", LEVEL_QUICK, 0, JUDGE_SAME, "",
      "ports of unlike firmware differ in features and rates", "/sys/class/infiniband",
      "the same on all of its model", "update the odd ones" },
    { "nic_gdr", "nic", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "without GPUDirect RDMA all traffic between nodes is copied through host memory",
      "/sys/kernel/mm/memory_peers, /sys/module, kernel and driver; NCCL_NET_GDR_LEVEL",
      "peer memory registered, or DMA-BUF (kernel 5.12, NVIDIA's open module)",
      "modprobe nvidia_peermem after the RDMA drivers, or use NVIDIA's open module" },
    { "nic_link_downed", "nic", LEVEL_QUICK, 1, JUDGE_RATE, "events",
      "a link that starts again stops every collective over it",
      "link_downed and link_error_recovery, over the whole check", "none",
      "reseat or replace the cable or transceiver" },
    { "nic_symbol_errors", "nic", LEVEL_QUICK, 0, JUDGE_RATE, "events",
      "bit errors cost retransmissions, and tell of a cable that will fail",
      "symbol_error, over the whole check",
      "1 in 1e12 bits at the port's rate (ibdiagnet's bound)",
      "clean, reseat or replace the cable or transceiver" },
    { "nic_receive_errors", "nic", LEVEL_QUICK, 0, JUDGE_RATE, "events",
      "packets that came damaged are sent again",
      "port_rcv_errors, local_link_integrity_errors and "
      "excessive_buffer_overrun_errors, over the whole check",
      "as nic_symbol_errors", "clean, reseat or replace the cable or transceiver" },
    { "nic_discards", "nic", LEVEL_QUICK, 0, JUDGE_RATE, "events",
      "a port that throws packets away is blocked, or its link is down",
      "port_xmit_discards, over the whole check", "none",
      "look at the switch's port and for congestion" },
    { "nic_retransmits", "nic", LEVEL_QUICK, 0, JUDGE_RATE, "events",
      "packets are lost on the way: each costs a timeout",
      "packet_seq_err, local_ack_timeout_err, implied_nak_seq_err and "
      "roce_adp_retrans, "
      "over the whole check",
      "none", "look for bad cables on the route; of RoCE, at PFC and ECN" },
    { "nic_rnr", "nic", LEVEL_QUICK, 0, JUDGE_RATE, "events",
      "a receiver without buffers makes senders wait",
      "rnr_nak_retry_err and out_of_buffer, over the whole check", "none",
      "look at what slows the receiving node" },
    { "nic_congestion", "nic", LEVEL_QUICK, 0, JUDGE_TOLD, "events",
      "marked packets show where traffic meets",
      "np_cnp_sent, rp_cnp_handled and np_ecn_marked_roce_packets, over the whole "
      "check",
      "none: it is told", "" },
    { "nic", "nic", LEVEL_FULL, 1, JUDGE_LINK, "Gb/s",
      "one slow rail holds up every ring that crosses it; the node's mean hides it",
      "a recording (--replay): each NIC on its own", "90 % of the port's rate",
      "look at the cable, the port's counters and its firmware" },
};

const struct check *catalogue(int *n)
{
    *n = (int)ARRAY_LEN(checks);
    return checks;
}

const struct check *catalogue_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        if (strcmp(checks[i].name, name) == 0)
            return &checks[i];
    return NULL;
}

static const char *level_text(enum level l)
{
    static const char *const names[] = { "quick", "standard", "full" };

    return names[l];
}

void catalogue_print(FILE *fp)
{
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        const struct check *c = &checks[i];

        fprintf(fp, "%s (%s, %s%s)\n  why     %s\n  needs   %s\n", c->name, c->scope,
                level_text(c->level), c->required ? ", required" : "", c->why,
                c->needs);
        if (*c->unit)
            fprintf(fp, "  unit    %s\n", c->unit);
        fprintf(fp, "  target  %s\n", c->target);
        if (*c->cure)
            fprintf(fp, "  cure    %s\n", c->cure);
    }
}

struct js *catalogue_json(void)
{
    struct js *o = js_document("check-list"), *all = js_array();

    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        const struct check *c = &checks[i];
        struct js *one = js_object();

        js_put_str(one, "name", c->name);
        js_put_str(one, "scope", c->scope);
        js_put_str(one, "level", level_text(c->level));
        js_put_bool(one, "required", c->required);
        js_put_str(one, "unit", c->unit);
        js_put_str(one, "why", c->why);
        js_put_str(one, "needs", c->needs);
        js_put_str(one, "target", c->target);
        js_put_str(one, "cure", c->cure);
        js_push(all, one);
    }
    js_put(o, "checks", all);
    return o;
}
