# The devices of persistent memory, and file systems on them.
. ./load.sh

# The NVDIMM's file system, a database on it, and the pool of that. Two file systems of other kinds.
dax=/mnt/dax database=/mnt/dax/db pool=/mnt/dax/pool
without_sync=/mnt/virtio without_dax=/mnt/ram

# Makes a device of persistent memory fit for DAX, as `ndctl create-namespace --mode fsdax` does.
make_fsdax() { # REGION
    local devices=/sys/bus/nd/devices driver=/sys/bus/nd/drivers/nd_pmem seed namespace
    seed=$(cat $devices/$1/pfn_seed)
    namespace=$(basename $devices/$1/namespace*)
    echo "$namespace" >$driver/unbind
    echo pmem >$devices/$seed/mode
    echo $((2 << 20)) >$devices/$seed/align
    cat /proc/sys/kernel/random/uuid >$devices/$seed/uuid
    echo "$namespace" >$devices/$seed/namespace
    echo "$seed" >$driver/bind
}

region_of() { # PROVIDER
    local region
    for region in /sys/bus/nd/devices/region*; do
        [ "$(cat "$region/../provider")" = "$1" ] && basename "$(readlink -f "$region")"
    done
}

device_of() { # PROVIDER
    local region block
    region=$(region_of "$1")
    for block in /sys/block/pmem*; do
        case $(readlink -f "$block") in */"$region"/*) echo "/dev/$(basename "$block")" ;; esac
    done
}

has_device() { # PROVIDER
    [ -b "$(device_of "$1")" ]
}

mount_device() { # DEVICE PLACE OPTIONS...
    local device=$1 place=$2
    shift 2
    mkdir -p "$place"
    mount -t ext4 "$@" "$device" "$place"
}

mount_with() { # OPTION
    mount_device "$nvdimm" $dax -o "$1"
}

for module in nfit nd_pmem virtio_pmem "brd rd_nr=1 rd_size=65536" ext4; do
    modprobe $module || echo "FAIL module $module"
done
begin_checks
# virtio-pmem comes first: Linux gives a new DAX device the memory of a removed one, whose flag for MAP_SYNC it does not
# clear.
for provider in virtio-pmem ACPI.NFIT; do
    wait_for 30 has_device $provider
    # The later boots find what the first made of them.
    if [ "$boot" = 1 ]; then
        make_fsdax "$(region_of $provider)"
        wait_for 30 has_device $provider
        mkfs.ext4 -q -F -b 4096 "$(device_of $provider)"
    fi
done
nvdimm=$(device_of ACPI.NFIT)
virtio=$(device_of virtio-pmem)
mkfs.ext4 -q -F /dev/ram0
mount_with dax=always
mount_device "$virtio" $without_sync -o dax=always
mount_device /dev/ram0 $without_dax
[ "$boot" != 3 ] || CHECKS="eadr"
