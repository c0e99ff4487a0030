# A namespace of long keys: its keys are digests, its values begin with the full key (docs/operations/storage-node.md).

INVALID_FIELD=4002

# The first 16 bytes of a key's SHA-256, in hexadecimal.
digest_of() { # KEY
    printf %s "$1" | sha256sum | cut -c 1-32
}

# The key's length (two bytes, little-endian), two zeros, the key, the value.
record_of() { # KEY VALUE-FILE
    printf "\\$(printf %o $((${#1} & 255)))\\$(printf %o $((${#1} >> 8)))\\0\\0"
    printf %s "$1"
    cat "$2"
}

key_of() { # BYTES
    printf "%0$1d" 7
}

begins() {
    connect "$LONG_PORT" "$LONG_NQN"
    nvme admin-passthru "/dev/$(controller "$LONG_NQN")" --opcode=6 --namespace-id=1 --cdw10=5 --cdw11=0x01000000 \
        --read --raw-binary --data-len=4096 >/tmp/identified 2>/dev/null
    expect "vendor's first byte" "$(dd if=/tmp/identified bs=1 skip=3840 count=1 2>/dev/null | xxd -p)" 01
}

returns_records() {
    device=$(generic "$LONG_NQN")
    for key_bytes in 1 16 17 255 256 5000 65535; do
        key=$(key_of $key_bytes)
        random_value 3000 /tmp/value
        record_of "$key" /tmp/value >/tmp/record
        kv_store "$device" "$(digest_of "$key")" /tmp/record
        kv_store "$device" "$(digest_of "$key")" /tmp/record
        kv_retrieve "$device" "$(digest_of "$key")" $((4 + key_bytes + 3000)) >/tmp/found 2>/dev/null
        cmp /tmp/record /tmp/found
    done
    key=$(digest_of "$(key_of 17)")
    kv_delete "$device" "$key"
    expect "exist after" "$(status_of kv_exist "$device" "$key")" $NO_SUCH_KEY
}

refuses_what_is_no_record() {
    device=$(generic "$LONG_NQN")
    printf value >/tmp/value
    record_of "a key that is long" /tmp/value >/tmp/record
    other=$(digest_of "another key that is long")
    expect "another's digest" "$(status_of kv_store "$device" "$other" /tmp/record)" $INVALID_FIELD
    expect "no record" "$(status_of kv_store "$device" "$other" /tmp/value)" $INVALID_FIELD
    expect "exist" "$(status_of kv_exist "$device" "$other")" $NO_SUCH_KEY
    disconnect "$LONG_NQN"
}

check "long keys: connected, and the namespace says that it has them" begins
check "long keys: records with keys of 1 to 65,535 bytes come back byte by byte" returns_records
check "long keys: what is no record of its digest is refused" refuses_what_is_no_record
