# The disks, and the one in memory.
. ./disk.sh
for module in nvme configfs "null_blk nr_devices=0"; do
    modprobe $module || echo "FAIL module $module"
done

# 16 zones of 4 MiB, of which 3 can be written; three of them are conventional.
make_disk_in_memory() {
    mount -t configfs config /sys/kernel/config
    local made=/sys/kernel/config/nullb/memory
    mkdir $made
    for setting in size=64 blocksize=512 memory_backed=1 zoned=1 zone_size=4 zone_capacity=3 zone_nr_conv=3 \
        zone_max_open=8 zone_max_active=8 power=1; do
        echo "${setting#*=}" >"$made/${setting%=*}"
    done
    small=/dev/memory
}

# Zones that are open, implicitly (20h) or explicitly (30h), or closed (40h), as nvme-cli tells.
active_zones() {
    nvme zns report-zones "$disk" >/tmp/zones
    [ "$(grep -c 'State: 0x' /tmp/zones)" = "$ZONES" ] || { cat /tmp/zones; return 1; }
    grep -c 'State: 0x[234]0' /tmp/zones || true
}

wait_for 30 has_disk zoned
wait_for 30 has_disk plain
disk=$(disk_of zoned)
plain=$(disk_of plain)
make_disk_in_memory
wait_for 30 [ -b "$small" ]
begin_checks
