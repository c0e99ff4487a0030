# Connections that end while values are on their way.

# Stores one generation of a value after the other until a command fails, or it is told to stop. /tmp/stored.N is the last
# generation that was acknowledged, /tmp/end.N what was said of the last command.
write_generations() { # DEVICE WRITER
    local generation=0
    echo 0 >"/tmp/stored.$2"
    until [ -e /tmp/stop ]; do
        generation=$((generation + 1))
        value_of "$2" $generation >"/tmp/value.$2"
        kv_store "$1" "$(hex "writer $2")" "/tmp/value.$2" >"/tmp/end.$2" 2>&1 || break
        echo $generation >"/tmp/stored.$2"
    done
}

value_of() { # WRITER GENERATION
    yes "writer $1, generation $2." | head -c 1048576
}

start_writers() { # DEVICE
    rm -f /tmp/stop
    writers=
    for writer in 1 2 3; do
        write_generations "$1" $writer &
        writers="$writers $!"
    done
    for writer in 1 2 3; do
        wait_for 60 grep -q '[1-9]' /tmp/stored.$writer
    done
}

# What was acknowledged is there; what was under way is there whole or not at all.
finds_whole_generations() { # DEVICE
    for writer in 1 2 3; do
        stored=$(cat /tmp/stored.$writer)
        kv_retrieve "$1" "$(hex "writer $writer")" 1048576 >/tmp/found
        echo "writer $writer: $stored acknowledged, found: $(head -n 1 /tmp/found)"
        value_of $writer "$stored" | cmp - /tmp/found ||
            value_of $writer $((stored + 1)) | cmp - /tmp/found
    done
}

# The kernel takes no further commands and lets those under way end.
survives_disconnect() {
    start_writers "$(generic "$KEYS_NQN")"
    disconnect "$KEYS_NQN"
    wait $writers
    connect "$KEYS_PORT" "$KEYS_NQN" --nr-io-queues=2 --reconnect-delay=1 --keep-alive-tmo=5
    finds_whole_generations "$(generic "$KEYS_NQN")"
}

# Commands had been sent and were cancelled without an answer: nvme-cli gets EINTR for them.
were_cut() {
    tail -n 1 /tmp/end.*
    grep -q 'Interrupted system call' /tmp/end.*
}

# Breaks the connections of three writers, looks at what is stored, and does so again until it met a command. The
# kernel comes back by itself.
break_in_mid_transfer() { # COMMAND...
    for _ in 1 2 3 4 5; do
        device=$(generic "$KEYS_NQN")
        start_writers "$device"
        "$@"
        wait_for 60 is_in_state "$KEYS_NQN" live
        touch /tmp/stop
        wait $writers
        finds_whole_generations "$device"
        if were_cut; then return; fi
    done
    return 1
}

# Waits until a writer's command is under way: nvme-cli then sleeps in the kernel. Without a process more, which would take
# longer than a transfer.
await_transfer() {
    local writer child name state
    for _ in $(seq 1000); do
        for writer in $writers; do
            # Its one line has no end, which `read` takes for a failure.
            read -r child _ <"/proc/$writer/task/$writer/children" || true
            read -r _ name state _ <"/proc/$child/stat" || continue
            [ "$name $state" != "(nvme) D" ] || return 0
        done
    done 2>/dev/null
    return 1
}

# The kernel closes the connections at once, whatever is on them.
reset() {
    local file
    file=/sys/class/nvme/$(controller "$KEYS_NQN")/reset_controller
    await_transfer
    echo 1 >"$file"
}

# Nobody closes anything: both sides give up when the keep-alive time is over.
cut_the_wire() {
    ip link set eth0 down
    wait_for 60 is_in_state "$KEYS_NQN" connecting
    ip link set eth0 up
}

kill_the_node() {
    dmesg -c >/dev/null
    await_transfer
    ask_host kill-keys
    ask_host start-keys
    wait_for 60 has_lost_connection
}

has_lost_connection() {
    dmesg | grep -q 'starting error recovery'
}

check "disconnect under load: every acknowledged value is there, none is torn" survives_disconnect
check "controller reset in mid-transfer: the same" break_in_mid_transfer reset
check "network gone in mid-transfer: the kernel reconnects, and the same" break_in_mid_transfer cut_the_wire
check "kill -9 of the node in mid-transfer: the kernel reconnects, and the same" break_in_mid_transfer kill_the_node
