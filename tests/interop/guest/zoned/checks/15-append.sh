# Zones of an NVMe disk are written by Zone Append: the kernel tells which commands it sends. And the disk says where it put
# what was written, so that another writer is noticed.

sent=/sys/kernel/tracing/events/nvme/nvme_setup_cmd
counting='hist:keys=ctrl_id,opcode if qid!=0'
controller=$(echo "$disk" | sed 's/.*nvme\([0-9]*\)n.*/\1/')

# Commands of this opcode that were sent to the disk since they are counted, not to its controller.
commands() { # OPCODE
    sed -n "s/.*ctrl_id: *$controller, opcode: *$1 } hitcount: *//p" $sent/hist | grep . || echo 0
}

# Pieces of tables are longer than the disk takes in an append (128 KiB).
appends() {
    esker flash create --overwrite "$disk"
    esker flash info "$disk" | tee /tmp/said_of_it
    grep -q "written by Zone Append through /dev/ng$controller" /tmp/said_of_it
    grep -q "at most 128 KiB at a time" /tmp/said_of_it
    random_records 20000 /tmp/records.tsv
    echo "$counting" >$sent/trigger
    esker import "$disk" /tmp/records.tsv -k records --key id --value text --segment 4MiB
    cat $sent/hist
    echo "$(commands 125) appends, $(commands 1) writes" | tee /tmp/counted
    expect "writes" "$(commands 1)" 0
    [ "$(commands 125)" -ge 40 ]
    echo "!$counting" >$sent/trigger
    esker export "$disk" -k records --format tsv | tail -n +2 >/tmp/exported.tsv
    tail -n +2 /tmp/records.tsv | cmp - /tmp/exported.tsv
}

# Somebody else appends a block to every zone that is written, again and again.
disturb() {
    nvme zns report-zones "$disk" | sed -n 's/^SLBA: *\(0x[0-9a-f]*\) .*State: 0x[234]0.*/\1/p' >/tmp/active
    while read -r zone; do
        nvme zns zone-append "$disk" --zslba="$zone" --data-size=4096 --data=/tmp/foreign || true
    done </tmp/active
}

notices_another_writer() {
    esker flash create --overwrite "$disk"
    head -c 4096 /dev/urandom >/tmp/foreign
    acknowledged load "$disk" 0 >/tmp/acknowledged 2>/tmp/error &
    load=$!
    wait_for 100 is_loaded 100
    while kill -0 $load; do disturb >>/tmp/disturbed; done
    status=0
    wait $load || status=$?
    cat /tmp/error /tmp/disturbed
    expect "status" "$status" 1
    grep -q "somebody else writes it" /tmp/error
    zone=$(sed -n "s|.*zone \([0-9]*\) of $disk.*|\1|p" /tmp/error | head -n 1)
    # What it wrote is where it was put. Zones are 2,048 blocks of 4 KiB apart.
    block=
    for found in $(sed -n 's/.*LBA *\([0-9a-fx]*\).*/\1/p' /tmp/disturbed); do
        found=$((0x${found#0x}))
        [ -n "$block" ] || [ $((found / 2048)) != "$zone" ] || block=$found
    done
    dd if="$disk" of=/tmp/found bs=4096 skip="$block" count=1 iflag=direct
    cmp /tmp/foreign /tmp/found
    acknowledged check "$disk" $(($(last_acknowledged) + 1))
    esker put "$disk" after another
    expect "value" "$(esker get "$disk" after)" another
}

# Its character device is missing, as of an old kernel.
writes_without_appends() {
    character=/dev/ng${controller}n1
    esker flash create --overwrite "$disk"
    esker put --create "$disk" first appended
    trap 'mv /dev/away "$character"' EXIT
    mv "$character" /dev/away
    esker flash info "$disk" | tee /tmp/said_of_it
    grep -q "without Zone Append: $character can't be used" /tmp/said_of_it
    esker put "$disk" second written
    expect "value" "$(esker get "$disk" first)" appended
    trap - EXIT
    mv /dev/away "$character"
    esker put "$disk" third appended
    expect "value" "$(esker get "$disk" second)" written
    esker flash create --overwrite "$small"
    esker flash info "$small" | grep "without Zone Append: it is no NVMe namespace"
}

check "append: what is imported goes to the disk by Zone Append, and by nothing else" appends
check "append: somebody else who writes zones is noticed, left alone, and costs nothing that was acknowledged" notices_another_writer
check "append: without the character device, and on a disk that is not NVMe, zones are written without" writes_without_appends
