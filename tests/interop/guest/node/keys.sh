# The five commands, tried on a namespace of keys of whatever kind: that of $SUBSYSTEM, which is connected by two queues.

one_of_each() {
    device=$(generic "$SUBSYSTEM")
    key=$(hex color)
    printf blue >/tmp/value
    expect "exist before" "$(status_of kv_exist "$device" "$key")" $NO_SUCH_KEY
    kv_store "$device" "$key" /tmp/value
    expect "exist" "$(status_of kv_exist "$device" "$key")" 0
    expect "value" "$(kv_retrieve "$device" "$key" 4)" blue
    kv_delete "$device" "$key"
    expect "exist after" "$(status_of kv_exist "$device" "$key")" $NO_SUCH_KEY
    expect "retrieve after" "$(status_of kv_retrieve "$device" "$key" 4)" $NO_SUCH_KEY
    expect "delete again" "$(status_of kv_delete "$device" "$key")" $NO_SUCH_KEY
}

# Lengths around what a capsule, a block and a transfer hold.
LENGTHS="1 2 3 4 511 512 513 4095 4096 4097 8192 32768 65535 65536 65537 131071 131072 262145 524288 1048575 1048576"

# Stored by one processor and so by one queue, retrieved by the other.
returns_every_byte() {
    device=$(generic "$SUBSYSTEM")
    for bytes in $LENGTHS; do
        key=$(hex "length $bytes")
        random_value "$bytes" /tmp/value
        on_processor 0
        kv_store "$device" "$key" /tmp/value
        on_processor 1
        kv_retrieve "$device" "$key" "$bytes" >/tmp/found 2>/tmp/result
        cmp /tmp/value /tmp/found
        grep "result: 0x$(printf %08x "$bytes")" /tmp/result
    done
}

on_processor() { # NUMBER
    # A check runs in a shell of its own, which `$$` does not name.
    read -r shell _ </proc/self/stat
    taskset -p $((1 << $1)) "$shell" >/dev/null
}

uses_both_queues() {
    echo >/sys/kernel/tracing/trace
    echo 1 >/sys/kernel/tracing/events/nvme/nvme_setup_cmd/enable
    returns_every_byte
    echo 0 >/sys/kernel/tracing/events/nvme/nvme_setup_cmd/enable
    for queue in 1 2; do
        used=$(grep -c "qid=$queue" /sys/kernel/tracing/trace) || true
        echo "queue $queue: $used commands"
        [ "$used" -ge 20 ]
    done
}

takes_keys_of_every_length() {
    device=$(generic "$SUBSYSTEM")
    key=
    for length in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        # From the top down, so that a byte in the wrong place gives another key.
        key=$key$(printf %02x $((255 - length)))
        printf "length %s" $length >/tmp/value
        kv_store "$device" "$key" /tmp/value
    done
    for length in 16 9 8 1; do
        part=$(echo "$key" | cut -c1-$((length * 2)))
        expect "value" "$(kv_retrieve "$device" "$part" 16 | tr -d '\0')" "length $length"
    done
    for length in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        kv_delete "$device" "$(echo "$key" | cut -c1-$((length * 2)))"
    done
}

refuses_bad_lengths() {
    device=$(generic "$SUBSYSTEM")
    printf x >/tmp/value
    KEY_LENGTH=0
    expect "store, no key" "$(status_of kv_store "$device" 61 /tmp/value)" $INVALID_KEY_SIZE
    KEY_LENGTH=17
    expect "store, 17 bytes" "$(status_of kv_store "$device" 61 /tmp/value)" $INVALID_KEY_SIZE
    expect "exist, 17 bytes" "$(status_of kv_exist "$device" 61)" $INVALID_KEY_SIZE
    KEY_LENGTH=
}

keeps_an_empty_value() {
    device=$(generic "$SUBSYSTEM")
    key=$(hex nothing)
    : >/tmp/value
    kv_store "$device" "$key" /tmp/value
    expect "exist" "$(status_of kv_exist "$device" "$key")" 0
    expect "length" "$(result_of kv_retrieve "$device" "$key" 4)" 0
}

tells_the_whole_length() {
    device=$(generic "$SUBSYSTEM")
    key=$(hex partly)
    random_value 10000 /tmp/value
    kv_store "$device" "$key" /tmp/value
    kv_retrieve "$device" "$key" 4096 >/tmp/found 2>/tmp/result
    grep "result: 0x00002710" /tmp/result
    cmp -n 4096 /tmp/value /tmp/found
    expect "bytes of the buffer" "$(stat -c %s /tmp/found)" 4096
    kv_retrieve "$device" "$key" 16384 >/tmp/found 2>/tmp/result
    grep "result: 0x00002710" /tmp/result
    cmp -n 10000 /tmp/value /tmp/found
}

stores_on_condition() {
    device=$(generic "$SUBSYSTEM")
    key=$(hex condition)
    printf one >/tmp/one
    printf two >/tmp/two
    expect "only if there, absent" "$(status_of kv_store "$device" "$key" /tmp/one $ONLY_IF_EXISTS)" $NO_SUCH_KEY
    kv_store "$device" "$key" /tmp/one $ONLY_IF_ABSENT
    expect "only if absent, there" "$(status_of kv_store "$device" "$key" /tmp/two $ONLY_IF_ABSENT)" $KEY_EXISTS
    expect "value" "$(kv_retrieve "$device" "$key" 3)" one
    kv_store "$device" "$key" /tmp/two $ONLY_IF_EXISTS
    expect "value" "$(kv_retrieve "$device" "$key" 3)" two
}

check_keys() { # WHAT
    check "$1: store, retrieve, exist and delete, each with its status" one_of_each
    check "$1: values of 1 B to 1 MiB come back byte by byte, stored by one queue, retrieved by the other" uses_both_queues
    check "$1: every key length from 1 to 16" takes_keys_of_every_length
    check "$1: no key, and one of 17 bytes, are refused" refuses_bad_lengths
    check "$1: an empty value" keeps_an_empty_value
    check "$1: a retrieve tells the whole length, whatever its buffer holds" tells_the_whole_length
    check "$1: store only if there, only if absent" stores_on_condition
}
