# The machine is reset in mid-write. The first boot ends here; the second finds what was acknowledged.

is_reset() {
    esker flash create --overwrite "$disk"
    ask_host reset-at-1500
    acknowledged load "$disk" 0 >/dev/ttyS1
}

is_all_there() {
    count=$((acknowledged + 1))
    [ $count -gt 1000 ]
    acknowledged check "$disk" $count
    esker flash info "$disk"
    esker put "$disk" after reset
    expect "value" "$(esker get "$disk" after)" reset
}

case $boot in
    1) check "reset: the machine goes on although it was reset" is_reset ;;
    2) check "reset: all that was acknowledged before the machine was reset in mid-write is there" is_all_there ;;
esac
