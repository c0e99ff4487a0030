# What is no empty zoned disk is refused, and left as it is.

leaves_a_conventional_disk_alone() {
    head -c 1000000 /dev/urandom | dd of="$plain" bs=4096 conv=fsync
    before=$(sha256sum <"$plain")
    refused 1 "conventional disk" esker flash create "$plain"
    refused 1 "conventional disk" esker flash create --overwrite "$plain"
    refused 1 "conventional disk" esker flash info "$plain"
    refused 1 "conventional disk" esker put "$plain" key value
    expect "its content" "$(sha256sum <"$plain")" "$before"
}

leaves_a_file_alone() {
    echo dear >/tmp/letter
    refused 1 "letter" esker flash create /tmp/letter --bytes 64MiB
    expect "its content" "$(cat /tmp/letter)" dear
}

# The fourth zone has a block that somebody else wrote.
leaves_foreign_data_alone() {
    head -c 4096 /dev/urandom >/tmp/foreign
    dd if=/tmp/foreign of="$zoned" bs=4096 seek=6144 oflag=direct conv=notrunc
    refused 1 "not Esker's" esker flash create "$zoned"
    refused 1 "not Esker's" esker put "$zoned" key value
    dd if="$zoned" of=/tmp/found bs=4096 skip=6144 count=1 iflag=direct
    cmp /tmp/foreign /tmp/found
    expect "active zones" "$(active_zones)" 1
}

lays_out_when_told() {
    esker flash create --overwrite "$zoned" | tee /tmp/said
    grep -q "1 unit of $ZONES chunks each, of 6.00 MiB" /tmp/said
    esker flash info "$zoned" | grep -q "0 files"
    expect "active zones" "$(active_zones)" 1
}

leaves_a_disk_in_use_alone() {
    acknowledged load "$zoned" 0 >/tmp/acknowledged &
    wait_for 60 grep -q acknowledged /tmp/acknowledged
    refused 1 "in use" esker get "$zoned" key
    refused 1 "in use" esker flash create --overwrite "$zoned"
    esker flash info "$zoned"
    kill -9 $!
    wait $! || true
}

check "refusals: a conventional disk, to create, create --overwrite, info and put" leaves_a_conventional_disk_alone
check "refusals: a regular file" leaves_a_file_alone
check "refusals: a disk that others wrote on" leaves_foreign_data_alone
check "create --overwrite empties it; info says its zones and their capacity" lays_out_when_told
check "refusals: a disk that a process has; info reads beside it" leaves_a_disk_in_use_alone
