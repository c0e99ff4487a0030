# What is no empty zoned disk is refused, and left as it is.

# The fourth zone has a block that somebody else wrote.
leaves_foreign_data_alone() {
    head -c 4096 /dev/urandom >/tmp/foreign
    dd if=/tmp/foreign of="$disk" bs=4096 seek=6144 oflag=direct conv=notrunc
    refused 2 "not Esker's" esker flash create "$disk"
    refused 2 "not Esker's" esker put "$disk" key value
    dd if="$disk" of=/tmp/found bs=4096 skip=6144 count=1 iflag=direct
    cmp /tmp/foreign /tmp/found
    expect "active zones" "$(active_zones)" 1
}

lays_out_when_told() {
    esker flash create --overwrite "$disk" | tee /tmp/said
    grep -q "1 unit of $ZONES chunks each, of 6.00 MiB" /tmp/said
    esker flash info "$disk" | grep -q "0 files"
    expect "active zones" "$(active_zones)" 1
}

check "refusals: a conventional disk, to create, create --overwrite, info and put" leaves_a_conventional_disk_alone
check "refusals: a regular file" leaves_a_file_alone
check "refusals: a disk that others wrote on" leaves_foreign_data_alone
check "create --overwrite empties it; info says its zones and their capacity" lays_out_when_told
check "refusals: a disk that a process has; info reads beside it" leaves_a_disk_in_use_alone
