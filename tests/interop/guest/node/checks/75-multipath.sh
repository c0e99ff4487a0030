# Native multipath: two portals of one disk, each over a network of its own. Under load each network is cut, and the second
# portal is killed.
SECOND_GATEWAY=10.0.3.2
PLACES=16

# The options of both ways: a way that is lost is noticed in some seconds, and tried again for ever.
connects_way() { # GATEWAY PORT
    nvme connect --transport=tcp --traddr="$1" --trsvcid="$2" --nqn="$BLOCKS_NQN" \
        --nr-io-queues=2 --keep-alive-tmo=5 --reconnect-delay=1 --ctrl-loss-tmo=600
}

states() {
    for controller in $(controllers "$BLOCKS_NQN"); do cat "/sys/class/nvme/$controller/state"; done
}

are_live() {
    expect "states" "$(echo $(states))" "live live"
}

has_lost_one() {
    states | grep -qv live
}

# Writes are shared among the ways, so that each has some in progress when it is lost.
takes_turns() {
    for subsystem in /sys/class/nvme-subsystem/nvme-subsys*; do
        [ "$(cat "$subsystem/subsysnqn")" != "$BLOCKS_NQN" ] || echo round-robin >"$subsystem/iopolicy"
    done
}

has_two_ways() {
    ip link set eth1 up
    ip addr add 10.0.3.15/24 dev eth1
    connects_way $GATEWAY "$BLOCKS_PORT"
    connects_way $SECOND_GATEWAY "$PORTAL_PORT"
    wait_for 30 are_live
    wait_for 30 [ -b "$(block "$BLOCKS_NQN")" ]
    expect "disks" "$(ls /dev/nvme*n1 | wc -l)" 1
    takes_turns
}

# A piece of 1 MiB that no other equals.
piece() { # NUMBER
    printf '%08d' "$1"
    cat /tmp/random
}

# Writes pieces and syncs each, until it is told to stop. A place gets a new piece again and again, so that an old one that
# is written late is seen.
writes() { # DISK
    number=0
    while [ ! -e /tmp/stop ]; do
        piece $number >/tmp/piece
        dd if=/tmp/piece of="$1" bs=1M seek=$((number % PLACES)) conv=fsync,notrunc || return
        number=$((number + 1))
        echo $number >/tmp/written
    done
}

has_written() { # COUNT
    [ "$(cat /tmp/written)" -ge "$1" ]
}

# The requests to write that each way has done, one line each.
requests() {
    for controller in $(controllers "$BLOCKS_NQN"); do
        awk '{ print $5 }' /sys/class/nvme/"$controller"/nvme*c*n1/stat
    done
}

# Each way has done more requests than /tmp/requests says.
both_write() {
    requests | paste /tmp/requests - | awk '$2 <= $1 { idle = 1 } END { exit idle || NR != 2 }'
}

wait_for_both() {
    requests >/tmp/requests
    wait_for 60 both_write
}

begin_writes() {
    disk=$(block "$BLOCKS_NQN")
    random_value 1048568 /tmp/random
    rm -f /tmp/stop
    echo 0 >/tmp/written
    writes "$disk" &
    writer=$!
}

# Breaks a way while both write: the writer goes on by the other, and by both once it is mended.
goes_on_without() { # BREAK MEND
    wait_for_both
    $1
    wait_for 60 has_lost_one
    wait_for 60 has_written $(($(cat /tmp/written) + 4))
    $2
    wait_for 60 are_live
    wait_for_both
}

ends_with_all_there() {
    touch /tmp/stop
    wait $writer
    echo 3 >/proc/sys/vm/drop_caches
    written=$(cat /tmp/written)
    [ "$written" -ge 8 ]
    first=$((written > PLACES ? written - PLACES : 0))
    for number in $(seq $first $((written - 1))); do
        piece "$number" >/tmp/piece
        dd if="$disk" bs=1M skip=$((number % PLACES)) count=1 2>/dev/null | cmp - /tmp/piece
    done
    if dmesg | grep 'I/O error'; then return 1; fi
}

survives_cut_networks() {
    begin_writes
    for network in eth1 eth0; do
        goes_on_without "ip link set $network down" "ip link set $network up"
    done
    ends_with_all_there
}

survives_a_killed_portal() {
    begin_writes
    for _ in 1 2 3; do
        goes_on_without "ask_host kill-portal" "ask_host start-portal"
    done
    ends_with_all_there
    disconnect "$BLOCKS_NQN"
}

check "multipath: two portals of one disk" has_two_ways
check "multipath: writers go on by one way while the other's network is cut, in turn; all is there" survives_cut_networks
check "multipath: writers go on while one of two portals is killed, three times; all is there" survives_a_killed_portal
