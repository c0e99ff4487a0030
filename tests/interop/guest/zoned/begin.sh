# The disks, by their serial numbers, as their order may change; and the one in memory.
for module in nvme configfs "null_blk nr_devices=0"; do
    modprobe $module || echo "FAIL module $module"
done

# Emulated processors are slow.
SECONDS_MAX=300

# 16 zones of 4 MiB, of which 3 can be written; three of them are conventional.
make_disk_in_memory() {
    mount -t configfs config /sys/kernel/config
    local disk=/sys/kernel/config/nullb/memory
    mkdir $disk
    for setting in size=64 blocksize=512 memory_backed=1 zoned=1 zone_size=4 zone_capacity=3 zone_nr_conv=3 \
        zone_max_open=8 zone_max_active=8 power=1; do
        echo "${setting#*=}" >"$disk/${setting%=*}"
    done
    memory=/dev/memory
}

disk_of() { # SERIAL
    local folder
    for folder in /sys/class/nvme/nvme*; do
        [ "$(tr -d ' ' <"$folder/serial")" = "$1" ] && echo "/dev/$(basename "$folder")n1"
    done
}

has_disk() { # SERIAL
    [ -b "$(disk_of "$1")" ]
}

wait_for 30 has_disk zoned
wait_for 30 has_disk plain
zoned=$(disk_of zoned)
plain=$(disk_of plain)
make_disk_in_memory
wait_for 30 [ -b "$memory" ]
. ./disk.sh

# After a reset only what it left is of interest.
set -- $(ask boot)
boot=$1 acknowledged=$2
[ "$boot" = 1 ] || CHECKS=reset
