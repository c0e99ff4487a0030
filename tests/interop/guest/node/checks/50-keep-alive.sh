# A connection without commands, but with keep-alives: the host sends them, the node answers, nobody gives up.

KEEP_ALIVE_SECONDS=5
IDLE_SECONDS=35

lives_on_keep_alives() {
    disconnect "$KEYS_NQN"
    connect "$KEYS_PORT" "$KEYS_NQN" --keep-alive-tmo=$KEEP_ALIVE_SECONDS --reconnect-delay=1
    before=$(attribute "$KEYS_NQN" cntlid)
    sleep $IDLE_SECONDS
    is_in_state "$KEYS_NQN" live
    expect "controller id" "$(attribute "$KEYS_NQN" cntlid)" "$before"
    if dmesg | grep -iE 'keep.?alive|reconnect|timeout|failed'; then return 1; fi
    expect "exist" "$(status_of kv_exist "$(generic "$KEYS_NQN")" "$(hex nobody)")" $NO_SUCH_KEY
}

# Without a network for longer than the keep-alive time both sides give the connection up, and the host makes a new one.
comes_back_after_silence() {
    before=$(attribute "$KEYS_NQN" cntlid)
    ip link set eth0 down
    wait_for 60 is_in_state "$KEYS_NQN" connecting
    ip link set eth0 up
    ip addr add 10.0.2.15/24 dev eth0 2>/dev/null || true
    wait_for 60 is_in_state "$KEYS_NQN" live
    after=$(attribute "$KEYS_NQN" cntlid)
    echo "controller $before, then $after"
    [ "$before" != "$after" ]
    expect "exist" "$(status_of kv_exist "$(generic "$KEYS_NQN")" "$(hex nobody)")" $NO_SUCH_KEY
}

check "keep-alive: idle for $IDLE_SECONDS s at a time-out of $KEEP_ALIVE_SECONDS s, the same connection" lives_on_keep_alives
check "keep-alive: no network for longer than that, and the kernel reconnects" comes_back_after_silence
