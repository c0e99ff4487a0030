# A load that is killed in mid-write, again and again: all that was acknowledged is there.

survives_kills() {
    esker flash create --overwrite "$disk"
    from=0
    for round in 1 2 3 4; do
        acknowledged load "$disk" $from >/tmp/acknowledged &
        wait_for 100 is_loaded $((round * 200))
        kill -9 $!
        wait $! || true
        from=$(($(last_acknowledged) + 1))
        acknowledged check "$disk" $from
    done
}

check "killed: four times kill -9 in mid-write; all that was acknowledged is there" survives_kills
