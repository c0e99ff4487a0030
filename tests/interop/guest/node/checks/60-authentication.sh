# DH-HMAC-CHAP. The secrets are nvme-cli's, made by the run script; the node knows them from its --hosts file.

# A kernel that can has the attribute; the option is known to others, too.
can_authenticate() {
    ls /sys/class/nvme/*/dhchap_secret >/dev/null 2>&1
}

# Connects as one of the hosts. The kernel wants a host id for each name: the name's own.
connect_as() { # HOST-NQN [OPTIONS...]
    local host=$1
    shift
    connect "$AUTH_PORT" "$AUTH_NQN" --hostnqn="$host" --hostid="${host##*:}" --nr-io-queues=2 "$@"
}

works() {
    is_in_state "$AUTH_NQN" live
    printf x >/tmp/value
    kv_store "$(generic "$AUTH_NQN")" 61 /tmp/value
    expect "value" "$(kv_retrieve "$(generic "$AUTH_NQN")" 61 1)" x
}

lets_in() { # HOST-NQN [OPTIONS...]
    connect_as "$@"
    works
    disconnect "$AUTH_NQN"
    dmesg | grep -i authenticated || [ $# -eq 1 ]
}

# It must fail for this reason, as the kernel tells it, and not for another.
keeps_out() { # REASON HOST-NQN [OPTIONS...]
    local reason=$1
    shift
    if connect_as "$@"; then return 1; fi
    expect "controllers" "$(controllers "$AUTH_NQN")" ""
    dmesg | grep "$reason"
}

if can_authenticate; then
    for kind in 0 1 2 3; do
        eval "nqn=\$SECRET_NQN_$kind secret=\$SECRET_$kind"
        check "authentication: the right secret (kind 0$kind) gets in" lets_in "$nqn" --dhchap-secret="$secret"
    done
    check "authentication: both sides prove themselves" \
        lets_in "$SECRET_NQN_1" --dhchap-secret="$SECRET_1" --dhchap-ctrl-secret="$NODE_SECRET"
    check "authentication: a node with the wrong secret is refused by the host" \
        keeps_out "controller authentication failed" \
        "$SECRET_NQN_1" --dhchap-secret="$SECRET_1" --dhchap-ctrl-secret="$SECRET_2"
    check "authentication: a wrong secret is kept out" \
        keeps_out "authentication failed" "$SECRET_NQN_1" --dhchap-secret="$SECRET_0"
    check "authentication: no secret where one is due is kept out" keeps_out "no key" "$SECRET_NQN_1"
else
    echo "SKIP authentication by secret: Linux $(uname -r) has none"
    check "authentication: no secret where one is due is kept out" \
        keeps_out "authentication setup failed" "$SECRET_NQN_1"
fi
check "authentication: a host that is not listed is kept out" keeps_out "is not allowed" "$STRANGE_NQN"
check "authentication: a host without a secret is let in by its name" lets_in "$OPEN_NQN"
