# Native multipath: two ways to one disk, over two networks, of which each in turn is cut under load.
SECOND_GATEWAY=10.0.3.2

# The options of both ways: a way that is lost is noticed in some seconds, and tried again for ever.
connects_way() { # GATEWAY
    nvme connect --transport=tcp --traddr="$1" --trsvcid="$BLOCKS_PORT" --nqn="$BLOCKS_NQN" \
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

has_two_ways() {
    ip link set eth1 up
    ip addr add 10.0.3.15/24 dev eth1
    connects_way $GATEWAY
    connects_way $SECOND_GATEWAY
    wait_for 30 are_live
    wait_for 30 [ -b "$(block "$BLOCKS_NQN")" ]
    expect "disks" "$(ls /dev/nvme*n1 | wc -l)" 1
}

# Writes pieces of 1 MiB and syncs each, one behind the other, until it is told to stop.
writes() { # DISK
    number=0
    while [ ! -e /tmp/stop ]; do
        dd if=/tmp/value of="$1" bs=1M seek=$((number % 64)) conv=fsync,notrunc || return
        number=$((number + 1))
        echo $number >/tmp/written
    done
}

has_written() { # COUNT
    [ "$(cat /tmp/written)" -ge "$1" ]
}

goes_on_by_the_other() {
    disk=$(block "$BLOCKS_NQN")
    random_value 1048576 /tmp/value
    rm -f /tmp/stop
    echo 0 >/tmp/written
    writes "$disk" &
    for network in eth1 eth0; do
        wait_for 60 has_written $(($(cat /tmp/written) + 2))
        ip link set $network down
        wait_for 60 has_lost_one
        wait_for 60 has_written $(($(cat /tmp/written) + 4))
        ip link set $network up
        wait_for 60 are_live
    done
    touch /tmp/stop
    wait $!
    echo 3 >/proc/sys/vm/drop_caches
    pieces=$(cat /tmp/written)
    [ "$pieces" -le 64 ] || pieces=64
    for number in $(seq 0 $((pieces - 1))); do
        dd if="$disk" bs=1M skip="$number" count=1 2>/dev/null | cmp - /tmp/value
    done
    if dmesg | grep 'I/O error'; then return 1; fi
    disconnect "$BLOCKS_NQN"
}

check "multipath: two ways to one disk" has_two_ways
check "multipath: writers go on by one way while the other is cut, in turn; all is there" goes_on_by_the_other
