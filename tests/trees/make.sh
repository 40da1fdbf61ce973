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
#   small  the machine that muster is built on: 2 CPUs, virtio, no GPU
set -eu
shape=$1 root=$2
sys=$root/sys proc=$root/proc

# put FILE TEXT
put() { mkdir -p "${1%/*}" && printf '%s\n' "$2" >"$1"; }

# pci PATH CLASS VENDOR NUMA SPEED WIDTH [MAX_WIDTH] - PATH below /sys/devices
pci()
{
    d=$sys/devices/$1 id=${1##*/}
    put "$d/class" "$2"
    put "$d/vendor" "$3"
    put "$d/numa_node" "$4"
    if [ -n "$5" ]; then
        put "$d/max_link_speed" "$5"
        put "$d/current_link_speed" '2.5 GT/s PCIe'
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
    width=16
    [ "$n" != 3 ] || width=8
    pci "$up" 0x060400 0x8086 "$2" "$fast" 16
    pci "$up/0000:$1:02.0" 0x060400 0x1000 "$2" "$fast" 16
    pci "$up/0000:$1:02.0/0000:$1:03.0" 0x060400 0x1000 "$2" "$fast" 16
    pci "$up/0000:$1:02.0/0000:$1:04.0" 0x060400 0x1000 "$2" "$fast" 16
    pci "$up/0000:$1:02.0/0000:$1:03.0/0000:$1:10.0" 0x030200 0x10de "$2" "$fast" $width 16
    pci "$up/0000:$1:02.0/0000:$1:04.0/0000:$1:11.0" 0x020700 0x15b3 "$2" "$fast" 16
    state='4: ACTIVE' rate='400 Gb/sec (4X NDR)'
    if [ "$shape" = down ] && [ "$4" = 2 ]; then
        state='1: DOWN' rate='10 Gb/sec (4X SDR)'
    fi
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
hgx | down) hgx ;;
vm) vm ;;
small) small ;;
*) echo "make.sh: no shape $shape: hgx, down, vm, small" >&2; exit 2 ;;
esac
