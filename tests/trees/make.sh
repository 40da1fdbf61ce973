#!/bin/sh
# make.sh SHAPE DIR - write a small /sys and /proc of a machine below DIR.
#
# Made by hand: the shapes follow published lspci and `nvidia-smi topo -m` listings,
# the names, GUIDs and addresses are invented.  Only what topology/source_sysfs.c
# reads is there.  SHAPE:
#   hgx    two NUMA nodes, 8 H200, 8 compute HCAs beside them (numbered against the
#          order of the GPUs on NUMA node 1), 2 storage HCAs, a 25 Gb/s management
#          card, docker0, a bridge, veth and lo; GPU 3 trains at x8
#   down   hgx with the port of mlx5_2 down
#   vm     a virtual machine with 2 H200: one flat PCI root, NUMA -1, one 10 Gb/s NIC
#   worn   hgx with PCIe links that are not what they could be: the switch of GPU 1 hangs
#          at x8, that of GPU 2 and mlx5_2 at Gen4, mlx5_6 at Gen3, GPU 5 in a Gen4 slot;
#          the port of mlx5_4 waits for a subnet manager; four NVSwitches
#   roce   one GPU and two RoCE ports beside it (GIDs: of one only link-local), two virtual
#          functions of the first, a bond of two Ethernet ports, and a VLAN on it
#   small  the machine that muster is built on: 2 CPUs, virtio, no GPU
set -eu
shape=$1 root=$2
sys=$root/sys proc=$root/proc

# put FILE TEXT
put() { mkdir -p "${1%/*}" && printf '%s\n' "$2" >"$1"; }

# pci PATH CLASS VENDOR NUMA SPEED WIDTH [MAX_WIDTH [SPEED_NOW]] - PATH below /sys/devices
pci()
{
    d=$sys/devices/$1 id=${1##*/}
    put "$d/class" "$2"
    put "$d/vendor" "$3"
    put "$d/numa_node" "$4"
    if [ -n "$5" ]; then
        put "$d/max_link_speed" "$5"
        now=$5
        [ "${2#0x03}" = "$2" ] || now='2.5 GT/s PCIe' # an idle GPU
        put "$d/current_link_speed" "${8:-$now}"
        put "$d/current_link_width" "$6"
        put "$d/max_link_width" "${7:-$6}"
    fi
    mkdir -p "$sys/bus/pci/devices"
    ln -sfn "../../../devices/$1" "$sys/bus/pci/devices/$id"
}

# hca PATH NAME GUID STATE RATE LAYER - an RDMA device at a PCI path
hca()
{
    d=$sys/devices/$1/infiniband/$2
    put "$d/node_guid" "$3"
    put "$d/sys_image_guid" "$3"
    put "$d/ports/1/state" "$4"
    put "$d/ports/1/rate" "$5"
    put "$d/ports/1/link_layer" "$6"
    ln -sfn ../.. "$d/device"
    mkdir -p "$sys/class/infiniband" "$sys/devices/$1/net/ib_$2"
    put "$sys/devices/$1/net/ib_$2/type" 32
    ln -sfn ../.. "$sys/devices/$1/net/ib_$2/device"
    mkdir -p "$sys/class/net"
    ln -sfn "../../devices/$1/net/ib_$2" "$sys/class/net/ib_$2"
    ln -sfn "../../devices/$1/infiniband/$2" "$sys/class/infiniband/$2"
}

# eth PATH NAME MBITS STATE - an Ethernet interface; PATH virtual has no device
eth()
{
    d=$sys/devices/$1/net/$2
    put "$d/type" 1
    put "$d/operstate" "$4"
    [ -z "$3" ] || put "$d/speed" "$3"
    [ "$1" = virtual ] || ln -sfn ../.. "$d/device"
    mkdir -p "$sys/class/net"
    ln -sfn "../../devices/$1/net/$2" "$sys/class/net/$2"
}

# cpus SOCKETS CORES THREADS_A_CORE MODEL - Linux numbering: second threads last
cpus()
{
    cores=$(($1 * $2)) c=0
    while [ $c -lt $((cores * $3)) ]; do
        put "$sys/devices/system/cpu/cpu$c/topology/physical_package_id" $((c % cores / $2))
        put "$sys/devices/system/cpu/cpu$c/topology/core_id" $((c % cores % $2))
        twins=$((c % cores))
        [ "$3" = 1 ] || twins=$twins,$((c % cores + cores))
        put "$sys/devices/system/cpu/cpu$c/topology/thread_siblings_list" $twins
        c=$((c + 1))
    done
    put "$sys/devices/system/cpu/online" "0-$((c - 1))"
    printf 'processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel name\t: %s\n' "$4" >"$proc/cpuinfo"
    printf 'model\t\t: 143\n' >>"$proc/cpuinfo"
}

# numa ID CPUS KILOBYTES
numa()
{
    put "$sys/devices/system/node/node$1/cpulist" "$2"
    put "$sys/devices/system/node/node$1/meminfo" "Node $1 MemTotal:       $3 kB"
}

# host NAME BOOT_ID KILOBYTES
host()
{
    put "$proc/sys/kernel/hostname" "$1"
    put "$proc/sys/kernel/random/boot_id" "$2"
    put "$proc/meminfo" "MemTotal:       $3 kB"
}

gpu_words()
{
    printf 'Model: \t\t NVIDIA H200\nIRQ:   \t\t 200\nGPU UUID: \t %s\nDevice Minor: \t %s\n' \
        "$2" "$3" >"$root/words"
    mkdir -p "$proc/driver/nvidia/gpus/$1"
    mv "$root/words" "$proc/driver/nvidia/gpus/$1/information"
}

# One GPU and one HCA behind a PCIe switch.  slot ROOT NUMA GPU_NUMBER HCA_NUMBER
slot()
{
    up="pci0000:$1/0000:$1:01.0" n=$3
    fast='32.0 GT/s PCIe'
    width=16 uplink=16 upspeed=$fast hcaspeed=$fast gpufast=$fast
    [ "$n" != 3 ] || width=8
    if [ "$shape" = worn ]; then
        [ "$n" != 1 ] || uplink=8
        [ "$n" != 2 ] || upspeed='16.0 GT/s PCIe'
        [ "$4" != 6 ] || hcaspeed='8.0 GT/s PCIe'
        [ "$n" != 6 ] || gpufast='16.0 GT/s PCIe'
    fi
    pci "$up" 0x060400 0x8086 "$2" "$fast" $uplink 16 "$upspeed"
    pci "$up/0000:$1:02.0" 0x060400 0x1000 "$2" "$fast" $uplink 16 "$upspeed"
    pci "$up/0000:$1:02.0/0000:$1:03.0" 0x060400 0x1000 "$2" "$fast" 16
    pci "$up/0000:$1:02.0/0000:$1:04.0" 0x060400 0x1000 "$2" "$fast" 16
    pci "$up/0000:$1:02.0/0000:$1:03.0/0000:$1:10.0" 0x030200 0x10de "$2" "$gpufast" $width 16
    pci "$up/0000:$1:02.0/0000:$1:04.0/0000:$1:11.0" 0x020700 0x15b3 "$2" "$fast" 16 16 "$hcaspeed"
    state='4: ACTIVE' rate='400 Gb/sec (4X NDR)'
    if [ "$shape" = down ] && [ "$4" = 2 ]; then
        state='1: DOWN' rate='10 Gb/sec (4X SDR)'
    fi
    [ "$shape$4" != worn4 ] || state='2: INIT'
    hca "$up/0000:$1:02.0/0000:$1:04.0/0000:$1:11.0" "mlx5_$4" "e41d:2d03:0000:000$4" \
        "$state" "$rate" InfiniBand
    gpu_words "0000:$1:10.0" "GPU-00000000-0000-0000-0000-00000000000$n" $((7 - n))
}

hgx()
{
    host hgx01 11111111-2222-3333-4444-555555555555 2113929216
    cpus 2 8 2 'Intel(R) Xeon(R) Platinum 8480C'
    put "$sys/devices/system/node/online" 0-1
    numa 0 0-7,16-23 1056964608
    numa 1 8-15,24-31 1056964608
    slot 18 0 0 0
    slot 2a 0 1 1
    slot 3a 0 2 2
    slot 5d 0 3 3
    slot 9a 1 4 7
    slot ab 1 5 6
    slot ba 1 6 5
    slot db 1 7 4
    for n in 0 1 2 3; do
        [ "$shape" = worn ] || break
        pci "pci0000:c0/0000:c$n:00.0" 0x068000 0x10de 1 '' ''
    done
    for n in 8 9; do
        p=pci0000:6$n/0000:6$n:01.0
        pci "$p" 0x060400 0x8086 0 '16.0 GT/s PCIe' 16
        pci "$p/0000:6$n:02.0" 0x020700 0x15b3 0 '16.0 GT/s PCIe' 16
        hca "$p/0000:6$n:02.0" "mlx5_$n" "e41d:2d03:0000:001$n" '4: ACTIVE' \
            '200 Gb/sec (4X HDR)' InfiniBand
    done
    pci pci0000:70/0000:70:01.0 0x060400 0x8086 0 '8.0 GT/s PCIe' 8
    pci pci0000:70/0000:70:01.0/0000:71:00.0 0x020000 0x8086 0 '8.0 GT/s PCIe' 8
    eth pci0000:70/0000:70:01.0/0000:71:00.0 eno1 25000 up
    eth virtual docker0 '' down
    eth virtual br0 10000 up
    eth virtual veth1a2b 10000 up
    eth virtual lo '' unknown
}

vm()
{
    host h200-vm 66666666-7777-8888-9999-000000000000 263921664
    cpus 1 16 2 'Intel(R) Xeon(R) Processor'
    put "$sys/devices/system/node/online" 0
    numa 0 0-31 263921664
    for n in 6 7; do
        pci "pci0000:00/0000:00:0$n.0" 0x030200 0x10de -1 '32.0 GT/s PCIe' 0
        gpu_words "0000:00:0$n.0" "GPU-00000000-0000-0000-0000-00000000000$n" "$n"
    done
    pci pci0000:00/0000:00:03.0 0x020000 0x1af4 -1 '' ''
    eth pci0000:00/0000:00:03.0/virtio2 eth0 10000 up
    eth virtual lo '' unknown
}

# gid NAME INDEX TYPE GID
gid()
{
    d=$sys/class/infiniband/$1/ports/1
    put "$d/gid_attrs/types/$2" "$3"
    put "$d/gids/$2" "$4"
}

roce()
{
    host roce01 77777777-7777-8888-9999-000000000000 263921664
    cpus 1 16 1 'AMD EPYC 9654'
    put "$sys/devices/system/node/online" 0
    numa 0 0-15 263921664
    up=pci0000:40/0000:40:01.0
    pci $up 0x060400 0x1022 0 '32.0 GT/s PCIe' 16
    pci $up/0000:41:00.0 0x060400 0x1000 0 '32.0 GT/s PCIe' 16
    for n in 0 1 2; do
        pci $up/0000:41:00.0/0000:42:0$n.0 0x060400 0x1000 0 '32.0 GT/s PCIe' 16
    done
    pci $up/0000:41:00.0/0000:42:00.0/0000:43:00.0 0x030200 0x10de 0 '32.0 GT/s PCIe' 16
    gpu_words 0000:43:00.0 GPU-00000000-0000-0000-0000-000000000001 0
    for n in 1 2; do
        p=$up/0000:41:00.0/0000:42:0$n.0/0000:4$((n + 3)):00.0
        pci $p 0x020000 0x15b3 0 '32.0 GT/s PCIe' 16
        hca $p rocep$n "e41d:2d03:0000:002$n" '4: ACTIVE' '400 Gb/sec (4X NDR)' Ethernet
        put "$sys/devices/$p/net/ib_rocep$n/type" 1
        gid rocep$n 0 'IB/RoCE v1' fe80:0000:0000:0000:0000:0000:0000:000$n
        gid rocep$n 1 'RoCE v2' fe80:0000:0000:0000:0000:0000:0000:000$n
    done
    gid rocep1 2 'IB/RoCE v1' 0000:0000:0000:0000:0000:ffff:0a00:0001
    gid rocep1 3 'RoCE v2' 0000:0000:0000:0000:0000:ffff:0a00:0001
    pf=$up/0000:41:00.0/0000:42:01.0/0000:44:00.0
    for n in 1 2; do
        p=$up/0000:41:00.0/0000:42:01.0/0000:44:00.$n
        pci $p 0x020000 0x15b3 0 '32.0 GT/s PCIe' 16
        hca $p rocep1v$n "e41d:2d03:0000:003$n" '4: ACTIVE' '400 Gb/sec (4X NDR)' Ethernet
        put "$sys/devices/$p/net/ib_rocep1v$n/type" 1
        ln -sfn ../0000:44:00.0 "$sys/devices/$p/physfn"
    done
    [ -d "$sys/devices/$pf" ]
    for n in 0 1; do
        pci pci0000:70/0000:7$n:00.0 0x020000 0x8086 0 '8.0 GT/s PCIe' 8
        eth pci0000:70/0000:7$n:00.0 eno$n 25000 up
    done
    eth virtual bond0 50000 up
    mkdir -p "$sys/devices/virtual/net/bond0/bonding/slaves"
    put "$sys/devices/virtual/net/bond0/uevent" INTERFACE=bond0
    for n in 0 1; do
        ln -sfn ../../../../virtual/net/bond0 "$sys/devices/pci0000:70/0000:7$n:00.0/net/eno$n/master"
    done
    eth virtual bond0.100 50000 up
    printf 'DEVTYPE=vlan\nINTERFACE=bond0.100\n' >"$sys/devices/virtual/net/bond0.100/uevent"
    put "$proc/net/vlan/bond0.100" 'Device: bond0'
    eth virtual lo '' unknown
}

small()
{
    host small 51d6b2a8-0000-0000-0000-000000000000 24731708
    cpus 1 2 1 'Intel(R) Xeon(R) Processor'
    put "$sys/devices/system/node/online" 0
    numa 0 0-1 14379220
    pci pci0000:00/0000:00:03.0 0x020000 0x1af4 -1 '' ''
    pci pci0000:00/0000:00:02.0 0x018000 0x1af4 -1 '' ''
    eth pci0000:00/0000:00:03.0/virtio2 eth0 -1 up
    eth virtual ifb0 '' down
    eth virtual lo '' unknown
}

rm -rf "$sys" "$proc"
mkdir -p "$sys" "$proc"
case $shape in
hgx | down | worn) hgx ;;
roce) roce ;;
vm) vm ;;
small) small ;;
*) echo "make.sh: no shape $shape: hgx, down, worn, roce, vm, small" >&2; exit 2 ;;
esac
