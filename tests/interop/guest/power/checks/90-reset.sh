# Each boot but the last is killed in mid-write. Each finds what was acknowledged before.

mounts() {
    mount -t ext4 -o commit=300 $disk /mnt
}

is_killed() {
    ask_host kill-at-$((acknowledged + 1500))
    acknowledged load $database $((acknowledged + 1)) >/dev/ttyS1
}

is_all_there() {
    count=$((acknowledged + 1))
    [ $count -gt $((1000 * (boot - 1))) ]
    mounts
    acknowledged check $database $count
    esker check $database
}

wait_for 30 [ -b $disk ]
if [ "$boot" = 1 ]; then
    mkfs.ext4 -q -F $disk
    mounts
else
    check "power: all that was acknowledged before the machine was killed is there (boot $boot)" is_all_there
fi
[ "$boot" = "$BOOTS" ] || check "power: the machine goes on although it was killed" is_killed
