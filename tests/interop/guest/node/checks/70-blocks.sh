# A namespace of blocks: a disk to the kernel, with a file system on it.

connects_blocks() { # [OPTIONS...]
    connect "$BLOCKS_PORT" "$BLOCKS_NQN" --nr-io-queues=2 --reconnect-delay=1 "$@"
    wait_for 30 [ -b "$(block "$BLOCKS_NQN")" ]
}

describes_disk() {
    connects_blocks
    disk=$(block "$BLOCKS_NQN")
    expect "bytes" "$(blockdev --getsize64 "$disk")" "$BLOCKS_BYTES"
    expect "block size" "$(blockdev --getss "$disk")" 4096
    expect "write cache" "$(cat "/sys/block/${disk#/dev/}/queue/write_cache")" "write through"
    nvme id-ns "$disk" | tee /tmp/identify
    grep "^nsze *: 0x$(printf %x $((BLOCKS_BYTES / 4096)))\$" /tmp/identify
    grep "lbads:12 .*(in use)" /tmp/identify
}

forget_cached() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# The first two random, the third in the middle, what is around it untouched.
keeps_blocks() {
    disk=$(block "$BLOCKS_NQN")
    random_value 6291456 /tmp/value
    dd if=/tmp/value of="$disk" bs=1M conv=fsync
    head -c 4096 /tmp/value | dd of="$disk" bs=4096 seek=777 conv=fsync,notrunc
    head -c 4096 /tmp/value | dd of=/tmp/value bs=4096 seek=777 conv=notrunc
    forget_cached
    head -c 6291456 "$disk" | cmp - /tmp/value
}

reads_and_writes_by_command() {
    disk=$(block "$BLOCKS_NQN")
    random_value 131072 /tmp/value
    rm -f /tmp/found
    nvme write "$disk" --start-block=2000 --block-count=31 --data-size=131072 --data=/tmp/value
    nvme flush "$disk" --namespace-id=1
    nvme read "$disk" --start-block=2000 --block-count=31 --data-size=131072 --data=/tmp/found
    cmp /tmp/value /tmp/found
    nvme write-zeroes "$disk" --namespace-id=1 --start-block=2010 --block-count=4
    nvme read "$disk" --start-block=2000 --block-count=31 --data-size=131072 --data=/tmp/found
    dd if=/dev/zero of=/tmp/value bs=4096 seek=10 count=5 conv=notrunc
    cmp /tmp/value /tmp/found
    past=$((BLOCKS_BYTES / 4096))
    expect "read past the end" "$(status_of nvme read "$disk" --start-block=$past --block-count=0 \
        --data-size=4096 --data=/tmp/found)" 4080
}

# Files of all sizes, some of them overwritten and removed.
fill() { # FOLDER
    for number in 1 2 3 4 5 6 7 8 9 10 11 12; do
        mkdir -p "$1/folder $((number % 3))"
        random_value $((number * number * number * 999)) "$1/folder $((number % 3))/file $number"
    done
    rm "$1/folder 0/file 3"
    random_value 100000 "$1/folder 1/file 4"
    ln "$1/folder 1/file 4" "$1/link"
}

holds_file_system() {
    disk=$(block "$BLOCKS_NQN")
    mkfs.ext4 -q -F "$disk"
    mount -t ext4 "$disk" /mnt
    fill /mnt
    (cd /mnt && find . -type f -exec sha256sum {} +) >/tmp/sums
    umount /mnt
    e2fsck -f -n "$disk"
}

finds_it_again() {
    disconnect "$BLOCKS_NQN"
    connects_blocks --hdr-digest --data-digest
    disk=$(block "$BLOCKS_NQN")
    e2fsck -f -n "$disk"
    mount -t ext4 -o ro "$disk" /mnt
    (cd /mnt && sha256sum -c /tmp/sums) | tee /tmp/found
    expect "files" "$(grep -c ': OK' /tmp/found)" "$(wc -l </tmp/sums)"
    umount /mnt
}

# The node is killed and started again under a mounted file system. What was synced is there; what is written meanwhile
# waits in the kernel for the node. (What is on its way just then may fail: without a second path the kernel tries five
# times at once and gives up. Whoever syncs is told.)
outlives_the_node() {
    disk=$(block "$BLOCKS_NQN")
    mount -t ext4 "$disk" /mnt
    random_value 3000000 /tmp/value
    dd if=/tmp/value of=/mnt/synced bs=64k conv=fsync
    ask_host kill-blocks
    wait_for 60 is_in_state "$BLOCKS_NQN" connecting
    dd if=/tmp/value of=/mnt/later bs=64k conv=fsync &
    sleep 1
    ask_host start-blocks
    wait_for 60 is_in_state "$BLOCKS_NQN" live
    wait $!
    forget_cached
    cmp /tmp/value /mnt/synced
    cmp /tmp/value /mnt/later
    umount /mnt
    e2fsck -f -n "$disk"
    if dmesg | grep -E 'I/O error|EXT4-fs error'; then return 1; fi
    disconnect "$BLOCKS_NQN"
}

check "blocks: a disk of the right size, without a volatile cache" describes_disk
check "blocks: what is written is read, past the kernel's cache" keeps_blocks
check "blocks: nvme write, flush, read, write-zeroes; reading past the end fails" reads_and_writes_by_command
check "blocks: ext4 made, filled, unmounted, and found in order by e2fsck" holds_file_system
check "blocks: every file's SHA-256 after a new connection, with digests" finds_it_again
check "blocks: kill -9 of the node under a mounted ext4: what was synced is there, what was not waits" outlives_the_node
