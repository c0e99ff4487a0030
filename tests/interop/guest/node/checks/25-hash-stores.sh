# The same commands on hash stores: one in a file, one on a raw device if the machine outside has one to spare. Their lists
# are in an order of the store's own.

connects_to_store() {
    connect "$1" "$SUBSYSTEM" --nr-io-queues=2
}

# The keys of a list, one a line: a count (u32), then of each key its length (u16), itself, zeros to a multiple of 4.
keys_of() { # LIST-FILE
    local digits at=8 left length
    digits=$(xxd -p "$1" | tr -d '\n')
    left=$((0x${digits:6:2}${digits:4:2}${digits:2:2}${digits:0:2}))
    while [ $left -gt 0 ]; do
        length=$((0x${digits:$((at + 2)):2}${digits:$at:2}))
        echo "${digits:$((at + 4)):$((length * 2))}"
        at=$((at + (2 + length + 3) / 4 * 8))
        left=$((left - 1))
    done
}

# From the store's first key on: a key without bytes is before all others.
list_all() { # DEVICE
    KEY_LENGTH=0 kv_list "$1" 00 4096
}

lists_every_key_once() {
    device=$(generic "$SUBSYSTEM")
    printf v >/tmp/value
    for key in ff02 ff01aabbccdd ff03000102030405060708090a0b0c0d; do
        kv_store "$device" "$key" /tmp/value
    done
    list_all "$device" >/tmp/list
    keys_of /tmp/list >/tmp/keys
    {
        printf '%s\n' ff02 ff01aabbccdd ff03000102030405060708090a0b0c0d
        for key in nothing partly condition; do echo "$(hex $key)"; done
        for bytes in $LENGTHS; do echo "$(hex "length $bytes")"; done
    } | sort >/tmp/wanted
    sort /tmp/keys | cmp - /tmp/wanted
}

# Also behind a key that is gone: its place in the order is known.
goes_on_in_its_order() {
    device=$(generic "$SUBSYSTEM")
    fifth=$(sed -n 5p /tmp/keys)
    kv_list "$device" "$fifth" 4096 >/tmp/list
    keys_of /tmp/list >/tmp/found
    tail -n +5 /tmp/keys | cmp - /tmp/found
    # A buffer for two keys of any length, and not for all.
    kv_list "$device" "$fifth" 44 >/tmp/list
    keys_of /tmp/list >/tmp/found
    few=$(wc -l </tmp/found)
    [ "$few" -ge 2 ]
    [ "$few" -le 5 ]
    sed -n "5,$((4 + few))p" /tmp/keys | cmp - /tmp/found
    kv_delete "$device" "$fifth"
    kv_list "$device" "$fifth" 4096 >/tmp/list
    keys_of /tmp/list >/tmp/found
    sed -i 5d /tmp/keys
    tail -n +5 /tmp/keys | cmp - /tmp/found
}

survives_its_node() { # NODE
    device=$(generic "$SUBSYSTEM")
    random_value 300000 /tmp/kept
    kv_store "$device" "$(sed -n 1p /tmp/keys)" /tmp/kept
    ask_host "kill-$1"
    wait_for 60 is_in_state "$SUBSYSTEM" connecting
    ask_host "start-$1"
    wait_for 60 is_in_state "$SUBSYSTEM" live
    list_all "$device" >/tmp/list
    keys_of /tmp/list | cmp - /tmp/keys
    kv_retrieve "$device" "$(sed -n 1p /tmp/keys)" 300000 >/tmp/found
    cmp /tmp/kept /tmp/found
    disconnect "$SUBSYSTEM"
}

check_store() { # WHAT NODE PORT NQN
    SUBSYSTEM=$4
    check "$1: connected, with two I/O queues" connects_to_store "$3"
    check_keys "$1"
    check "$1: a list has every key once" lists_every_key_once
    check "$1: a list goes on in its order, also from a key that is gone" goes_on_in_its_order
    check "$1: kill -9 of the node: what was acknowledged is there, in the same order" survives_its_node "$2"
}

check_store "hash store in a file" hash "$HASH_PORT" "$HASH_NQN"
[ -z "$RAW_PORT" ] || check_store "hash store on a raw device" raw "$RAW_PORT" "$RAW_NQN"
