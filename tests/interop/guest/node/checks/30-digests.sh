# Header and data digests. That both sides agreed on them is read from the recorded traffic, by the run script.

connects_with_digests() {
    disconnect "$KEYS_NQN"
    connect "$KEYS_PORT" "$KEYS_NQN" --nr-io-queues=2 --hdr-digest --data-digest
    is_in_state "$KEYS_NQN" live
}

digests_hold() {
    device=$(generic "$KEYS_NQN")
    for bytes in 1 4095 65537 1048576; do
        key=$(hex "digest $bytes")
        random_value $bytes /tmp/value
        kv_store "$device" "$key" /tmp/value
        kv_retrieve "$device" "$key" $bytes >/tmp/found
        cmp /tmp/value /tmp/found
    done
    if dmesg | grep -i digest; then return 1; fi
}

check "digests: connect with header and data digests" connects_with_digests
check "digests: values up to 1 MiB, in capsules and by R2T, and no digest error" digests_hold
