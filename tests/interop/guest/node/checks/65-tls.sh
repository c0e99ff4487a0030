# TLS 1.3 with pre-shared keys. The kernel leaves the handshake to tlshd, which takes the key from the
# keyring that nvme-cli puts it into. The node knows the keys from its --hosts file.

starts_tlshd() {
    modprobe tls
    modprobe nvme-keyring
    printf '[debug]\nloglevel=1\ntls=1\nnl=0\n[authenticate]\nkeyrings=.nvme\n' >/etc/tlshd.conf
    tlshd -s -c /etc/tlshd.conf >/tmp/tlshd 2>&1 &
    sleep 1
    kill -0 $!
}

# Puts the key of a host into the keyring, under an identity of this version.
knows_key() { # HOST-NQN KEY VERSION
    nvme check-tls-key --insert --identity="$3" --hostnqn="$1" --subsysnqn="$TLS_NQN" --keydata="$2"
}

connects_by_tls() { # HOST-NQN [OPTIONS...]
    local host=$1
    shift
    : >/tmp/tlshd
    connect "$TLS_PORT" "$TLS_NQN" --hostnqn="$host" --hostid="${host##*:}" --nr-io-queues=2 "$@" ||
        { cat /tmp/tlshd; return 1; }
}

# What is stored begins with the words that the recorded traffic must not have.
stores() {
    is_in_state "$TLS_NQN" live
    random_value 1000000 /tmp/random
    { printf 'these words are secret'; cat /tmp/random; } >/tmp/value
    kv_store "$(generic "$TLS_NQN")" 61 /tmp/value
    kv_retrieve "$(generic "$TLS_NQN")" 61 1000022 >/tmp/found
    cmp /tmp/value /tmp/found
}

gets_in() { # HOST-NQN KEY VERSION
    knows_key "$@"
    connects_by_tls "$1" --tls
    stores
    disconnect "$TLS_NQN"
}

stays_out() { # HOST-NQN [OPTIONS...]
    if connects_by_tls "$@"; then return 1; fi
    expect "controllers" "$(controllers "$TLS_NQN")" ""
}

has_another_key() { # HOST-NQN KEY
    knows_key "$1" "$2" 0
    stays_out "$1" --tls
    grep -i "alert\|handshake" /tmp/tlshd
}

is_announced() {
    nvme discover --transport=tcp --traddr=$GATEWAY --trsvcid="$TLS_PORT" --hostnqn="$TLS_HOST_0" \
        --hostid="${TLS_HOST_0##*:}" | tee /tmp/discovery
    grep "^treq: *required" /tmp/discovery
    grep "^sectype: *tls13" /tmp/discovery
}

if [ -n "${TLS_PORT:-}" ] && [ -x /usr/sbin/tlshd ]; then
    check "tls: tlshd runs" starts_tlshd
    check "tls: discovery says that it is required, and which" is_announced
    check "tls: a host with a key (SHA-256, identity 0) gets in" gets_in "$TLS_HOST_0" "$TLS_KEY_0" 0
    check "tls: the same by identity 1" gets_in "$TLS_HOST_0" "$TLS_KEY_0" 1
    check "tls: a host with a key (SHA-384, identity 1) gets in" gets_in "$TLS_HOST_1" "$TLS_KEY_1" 1
    check "tls: a host without TLS stays out where it has a key" stays_out "$TLS_HOST_0"
    check "tls: a host with another key stays out" has_another_key "$TLS_HOST_2" "$TLS_KEY_0"
else
    echo "SKIP tls: the program was built without it, or the release has no tlshd"
fi
