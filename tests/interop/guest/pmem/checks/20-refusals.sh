# What is no persistent memory is refused for what it is, and nothing is left there.

is_refused_at() { # PLACE
    local option
    for option in "" --emulated; do
        refused 2 MAP_SYNC esker pmem create "$1/pool" --bytes 1MiB $option
    done
    expect "files at $1" "$(ls "$1")" lost+found
}

# A pool that was written elsewhere can be read there.
refuses_a_copy() {
    rm -rf $database $pool
    esker pmem create $pool --bytes 1MiB
    esker put --create $database city Bremen --pool $pool
    cp $pool $without_dax/pool
    esker pmem info $without_dax/pool | grep -q '^memory *a copy'
    expect "value" "$(esker get $database city --pool $without_dax/pool)" Bremen
    refused 2 MAP_SYNC esker put $database city Kiel --pool $without_dax/pool
    rm $without_dax/pool
}

# The same with the pool itself, when its file system is mounted otherwise.
refuses_another_mount() {
    umount $dax
    mount_with dax=never
    status=0
    (
        set -e
        esker pmem info $pool | grep -q '^memory *a copy'
        expect "value" "$(esker get $database city --pool $pool)" Bremen
        refused 2 MAP_SYNC esker put $database city Kiel --pool $pool
        refused 2 MAP_SYNC esker pmem create $dax/other --bytes 1MiB
        [ ! -e $dax/other ]
    ) || status=$?
    umount $dax
    mount_with dax=always
    expect "status with dax=never" $status 0
    esker put $database city Kiel --pool $pool
    expect "value" "$(esker get $database city --pool $pool)" Kiel
}

refuses_devices() {
    for device in "$nvdimm" /dev/ram0; do
        refused 2 "no regular file" esker pmem info "$device"
        refused 2 "no regular file" esker put $database city Kiel --pool "$device"
        refused 2 "exists" esker pmem create "$device" --bytes 1MiB
    done
}

refuses_memory() {
    refused 2 "by name" esker pmem create /tmp/pool --bytes 1MiB
    [ ! -e /tmp/pool ]
    esker pmem create /tmp/pool --bytes 1MiB --emulated | grep -q '^memory *emulated'
    rm /tmp/pool
}

check "refusals: a file system without DAX, on a disk in memory" is_refused_at $without_dax
check "refusals: a file system with DAX and without MAP_SYNC, on virtio-pmem" is_refused_at $without_sync
check "refusals: a copy without DAX: it is read, and not written to" refuses_a_copy
check "refusals: the NVDIMM mounted with dax=never: the pool is read, and not written to" refuses_another_mount
check "refusals: block devices" refuses_devices
check "refusals: tmpfs, unless an emulation is asked for by name" refuses_memory
