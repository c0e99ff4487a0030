# What checks of disks share. A suite's begin.sh sets `disk`, which databases are put on, and `small`, which becomes full.
. ./load.sh

# A disk by its serial number, as their order may change.
disk_of() { # SERIAL
    local folder
    for folder in /sys/class/nvme/nvme*; do
        [ "$(tr -d ' ' <"$folder/serial")" = "$1" ] && echo "/dev/$(basename "$folder")n1"
    done
}

has_disk() { # SERIAL
    [ -b "$(disk_of "$1")" ]
}

leaves_a_conventional_disk_alone() {
    head -c 1000000 /dev/urandom | dd of="$plain" bs=4096 conv=fsync
    before=$(sha256sum <"$plain")
    refused 2 "conventional disk" esker flash create "$plain"
    refused 2 "conventional disk" esker flash create --overwrite "$plain"
    refused 2 "conventional disk" esker flash info "$plain"
    refused 2 "conventional disk" esker put "$plain" key value
    expect "its content" "$(sha256sum <"$plain")" "$before"
}

leaves_a_file_alone() {
    echo dear >/tmp/letter
    refused 2 "letter" esker flash create /tmp/letter --bytes 64MiB
    expect "its content" "$(cat /tmp/letter)" dear
}

leaves_a_disk_in_use_alone() {
    acknowledged load "$disk" 0 >/tmp/acknowledged &
    wait_for 60 grep -q acknowledged /tmp/acknowledged
    refused 2 "in use" esker get "$disk" key
    refused 2 "in use" esker flash create --overwrite "$disk"
    esker flash info "$disk"
    kill -9 $!
    wait $! || true
}
