# The disks.
. ./disk.sh
modprobe nvme || echo "FAIL module nvme"

# The handles of a namespace whose reclaim unit was begun, as nvme-cli tells.
begun_handles() { # UNIT_BLOCKS
    nvme fdp status "$disk" | tee /tmp/handles >&2
    grep 'RUAMW' /tmp/handles | grep -vc ": $1$" || true
}

for serial in placed small plain; do wait_for 30 has_disk $serial; done
disk=$(disk_of placed)
small=$(disk_of small)
plain=$(disk_of plain)
begin_checks
