# TLS 1.3 with pre-shared keys. The kernel leaves the handshake to tlshd, which takes the key from the
# keyring that nvme-cli puts it into. The node knows the keys from its --hosts file.
#
# And the other way round: `esker nvme` as the host of Linux's own node, which looks for one identity of a key.

starts_tlshd() {
    modprobe tls
    modprobe nvme-keyring
    printf '[debug]\nloglevel=1\ntls=1\nnl=0\n[authenticate]\nkeyrings=.nvme\n' >/etc/tlshd.conf
    tlshd -s -c /etc/tlshd.conf >>/tmp/tlshd 2>&1 &
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

LINUX_PORT=4430 LINUX_NQN=nqn.2024-01.io.esker:linux DISCOVERY_NQN=nqn.2014-08.org.nvmexpress.discovery

starts_linux_node() {
    modprobe nvmet-tcp
    mount -t configfs config /sys/kernel/config
    cd /sys/kernel/config/nvmet
    mkdir subsystems/$LINUX_NQN ports/1
    echo 1 >subsystems/$LINUX_NQN/attr_allow_any_host
    cd ports/1
    echo tcp >addr_trtype
    echo ipv4 >addr_adrfam
    echo 127.0.0.1 >addr_traddr
    echo $LINUX_PORT >addr_trsvcid
    echo tls1.3 >addr_tsas
    echo required >addr_treq
    ln -s ../../subsystems/$LINUX_NQN subsystems/
}

discovers_linux() { # HOST-NQN KEY
    echo "$2" >/tmp/key
    chmod 600 /tmp/key
    esker nvme discover --address 127.0.0.1:$LINUX_PORT --host "$1" --tls-key /tmp/key --timeout 60
}

# Linux knows the key by the identity of this version alone.
gets_in_at_linux() { # HOST-NQN KEY VERSION
    nvme check-tls-key --insert --identity="$3" --hostnqn="$1" --subsysnqn=$DISCOVERY_NQN --keydata="$2"
    : >/tmp/tlshd
    discovers_linux "$1" "$2" >/tmp/discovery 2>&1 || { tail -n 20 /tmp/tlshd; cat /tmp/discovery; return 1; }
    grep "^$LINUX_NQN" /tmp/discovery
}

stays_out_at_linux() { # HOST-NQN KEY
    status=0
    discovers_linux "$@" >/tmp/refusal 2>&1 || status=$?
    cat /tmp/refusal
    [ $status -ne 0 ]
    grep TLS /tmp/refusal
}

if [ -n "${TLS_PORT:-}" ] && [ -x /usr/sbin/tlshd ]; then
    check "tls: tlshd runs" starts_tlshd
    check "tls: discovery says that it is required, and which" is_announced
    check "tls: a host with a key (SHA-256, identity 0) gets in" gets_in "$TLS_HOST_0" "$TLS_KEY_0" 0
    check "tls: the same by identity 1" gets_in "$TLS_HOST_0" "$TLS_KEY_0" 1
    check "tls: a host with a key of 48 bytes (SHA-384, identity 0) gets in" gets_in "$TLS_HOST_1" "$TLS_KEY_1" 0
    check "tls: the same by identity 1" gets_in "$TLS_HOST_1" "$TLS_KEY_1" 1
    check "tls: a host without TLS stays out where it has a key" stays_out "$TLS_HOST_0"
    check "tls: a host with another key stays out" has_another_key "$TLS_HOST_2" "$TLS_KEY_0"
    check "tls: Linux's own node runs" starts_linux_node
    check "tls: our host gets in at Linux (SHA-256, identity 0)" gets_in_at_linux "$TLS_HOST_0" "$TLS_KEY_0" 0
    check "tls: the same by identity 1" gets_in_at_linux "$TLS_HOST_2" "$TLS_KEY_2" 1
    check "tls: with a key of 48 bytes (SHA-384, identity 0)" gets_in_at_linux "$OPEN_NQN" "$TLS_KEY_1" 0
    check "tls: the same by identity 1" gets_in_at_linux "$TLS_HOST_1" "$TLS_KEY_1" 1
    check "tls: our host stays out at Linux with another key" stays_out_at_linux "$TLS_HOST_0" "$TLS_KEY_2"
else
    echo "SKIP tls: the program was built without it, or the release has no tlshd"
fi
