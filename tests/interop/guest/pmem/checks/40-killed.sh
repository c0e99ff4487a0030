# A load that is killed in mid-write, again and again: all that was acknowledged is there.

survives_kills() {
    rm -rf $database $pool
    esker pmem create $pool --bytes 64MiB
    from=0
    for round in 1 2 3 4; do
        : >/tmp/acknowledged
        acknowledged load $database $from $pool >/tmp/acknowledged &
        wait_for 100 is_loaded $((round * 400))
        refused 2 "pmem check\|process\|open" esker pmem check $pool
        esker pmem info $pool
        kill -9 $!
        wait $! || true
        from=$(($(last_acknowledged) + 1))
        esker pmem info $pool | grep -q 'in use, for segments'
        acknowledged check $database $from $pool
        esker pmem check $pool
        esker check $database --pool $pool
    done
}

check "killed: four times kill -9 in mid-write; all that was acknowledged is there" survives_kills
