# What a pool on persistent memory says of itself.

says_its_kind() {
    rm -f $pool
    for option in "" --emulated; do
        esker pmem create $pool --bytes 64MiB $option | tee /tmp/shown
        grep -q '^memory *persistent memory (DAX, MAP_SYNC)$' /tmp/shown
        grep -q '^stores *streaming .*, clwb$' /tmp/shown
        esker pmem info $pool | cmp - /tmp/shown
        esker pmem info $pool --json | tee /tmp/json
        grep -q '"survives_power_loss": *true' /tmp/json
        esker pmem check $pool
        rm $pool
    done
    expect "as the kernel calls it" "$(cat /sys/bus/nd/devices/"$(region_of ACPI.NFIT)"/persistence_domain)" memory_controller
}

# The first store into a page that was only allocated waits for the file system's journal.
has_its_blocks() {
    rm -f $pool
    esker pmem create $pool --bytes 64MiB
    filefrag -v $pool | tee /tmp/extents
    expect "bytes" "$(stat -c %s $pool)" $((64 << 20))
    [ "$(stat -c %b $pool)" -ge $((64 << 11)) ]
    rm $pool
    expect "extents that are unwritten" "$(grep -c unwritten /tmp/extents)" 0
}

finds_no_room() {
    rm -f $pool
    refused 2 "No space left" esker pmem create $pool --bytes 1GiB
    [ ! -e $pool ]
}

check "domain: create, info and check say persistent memory; asking for an emulation changes nothing" says_its_kind
check "domain: a new pool has all its blocks, written" has_its_blocks
check "domain: a pool that does not fit the file system is refused, and nothing of it stays" finds_no_room
