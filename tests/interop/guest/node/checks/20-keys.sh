# Keys of a database, on the connection that 10-discover.sh made; their lists are in order.
SUBSYSTEM=$KEYS_NQN

# What a list holds is written out here: a count (u32), then of each key its length (u16), itself, zeros to a multiple of 4.
lists_in_order() {
    device=$(generic "$SUBSYSTEM")
    printf v >/tmp/value
    for key in ff02 ff01aabbccdd ff03000102030405060708090a0b0c0d ff04aa; do
        kv_store "$device" "$key" /tmp/value
    done
    kv_list "$device" ff01 4096 >/tmp/found
    {
        echo 04000000
        echo 0600 ff01aabbccdd
        echo 0200 ff02
        echo 1000 ff03000102030405060708090a0b0c0d 0000
        echo 0300 ff04aa 000000
    } | xxd -r -p >/tmp/wanted
    cmp -n "$(stat -c %s /tmp/wanted)" /tmp/wanted /tmp/found
}

resumes_a_list() {
    device=$(generic "$SUBSYSTEM")
    # 4 + 8 + 4 bytes: two keys and no third.
    kv_list "$device" ff01 20 >/tmp/found
    echo 02000000 0600 ff01aabbccdd 0200 ff02 | xxd -r -p >/tmp/wanted
    cmp -n 16 /tmp/wanted /tmp/found
    kv_list "$device" ff02 4096 >/tmp/found
    echo 03000000 0200 ff02 1000 ff03000102030405060708090a0b0c0d 0000 | xxd -r -p >/tmp/wanted
    cmp -n 28 /tmp/wanted /tmp/found
    kv_list "$device" ff05 4096 >/tmp/found
    expect "keys after the last" "$(od -An -tu4 -N4 /tmp/found | tr -d ' ')" 0
}

check_keys keys
check "keys: a list in order, byte by byte" lists_in_order
check "keys: a list goes on where the last one ended" resumes_a_list
