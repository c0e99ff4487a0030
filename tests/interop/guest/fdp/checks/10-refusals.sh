# What was not laid out is refused, and left as it is.

names_the_block_device() {
    character=$(echo "$disk" | sed s/nvme/ng/)
    [ -c "$character" ]
    refused 2 "name its block device" esker flash create --overwrite "$character"
    refused 2 "name its block device" esker put "$character" key value
}

# Bare commands count blocks from the beginning of the whole disk.
leaves_a_part_alone() {
    printf 'n\np\n1\n\n\nw\n' | fdisk "$small"
    wait_for 30 [ -b "${small}p1" ]
    before=$(sha256sum <"$small")
    refused 2 "part of a disk" esker flash create --overwrite "${small}p1"
    refused 2 "part of a disk" esker put "${small}p1" key value
    expect "the disk's content" "$(sha256sum <"$small")" "$before"
}

# A block far behind the beginning that somebody else wrote.
leaves_foreign_data_alone() {
    head -c 4096 /dev/urandom >/tmp/foreign
    dd if=/tmp/foreign of="$disk" bs=4096 seek=70001 oflag=direct conv=notrunc
    refused 2 "create --overwrite" esker flash create "$disk"
    refused 2 "create --overwrite" esker flash info "$disk"
    refused 2 "create --overwrite" esker put "$disk" key value
    dd if="$disk" of=/tmp/found bs=4096 skip=70001 count=1 iflag=direct
    cmp /tmp/foreign /tmp/found
}

lays_out_when_told() {
    esker flash create --overwrite "$disk" | tee /tmp/said
    grep -q "1 unit of 95 chunks each, of 8.00 MiB" /tmp/said
    grep -q "10 placement identifiers, reclaim units of 8.00 MiB" /tmp/said
    esker flash info "$disk" | grep -q "0 files"
    dd if="$disk" of=/tmp/found bs=4096 skip=70001 count=1 iflag=direct
    head -c 4096 /dev/zero | cmp - /tmp/found
    # What is laid out is left as it is.
    esker put --create "$disk" key value
    esker flash create "$disk"
    expect "value" "$(esker get "$disk" key)" value
}

check "refusals: a conventional disk, to create, create --overwrite, info and put" leaves_a_conventional_disk_alone
check "refusals: a regular file" leaves_a_file_alone
check "refusals: a namespace's character device" names_the_block_device
check "refusals: a part of a disk" leaves_a_part_alone
check "refusals: a disk that was not laid out" leaves_foreign_data_alone
check "create --overwrite empties it; info says its identifiers and reclaim units" lays_out_when_told
check "refusals: a disk that a process has; info reads beside it" leaves_a_disk_in_use_alone
