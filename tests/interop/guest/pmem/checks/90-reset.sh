# The machine is reset in mid-write, and in the next boot killed. Each boot finds what was acknowledged before.

is_reset() {
    rm -rf $database $pool
    esker pmem create $pool --bytes 64MiB
    ask_host reset-at-1500
    acknowledged load $database 0 $pool >/dev/ttyS1
}

is_all_there() {
    count=$((acknowledged + 1))
    [ $count -gt 1000 ]
    esker pmem info $pool | tee /tmp/shown
    grep -q 'in use, for segments' /tmp/shown
    esker pmem check $pool
    acknowledged check $database $count $pool
    esker put $database after reset --pool $pool
    expect "value" "$(esker get $database after --pool $pool)" reset
}

is_killed() {
    ask_host kill-at-$((acknowledged + 1500))
    acknowledged load $database $((acknowledged + 1)) $pool >/dev/ttyS1
}

case $boot in
    1) check "reset: the machine goes on although it was reset" is_reset ;;
    2)
        check "reset: all that was acknowledged before the machine was reset in mid-write is there" is_all_there
        check "reset: the machine goes on although it was killed" is_killed
        ;;
esac
