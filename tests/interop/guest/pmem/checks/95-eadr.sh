# The platform says that the processors' caches are safe, too. What the machine had acknowledged when it was killed is there.

says_that_caches_survive() {
    [ -e $pool ] || esker pmem create $pool --bytes 64MiB
    esker pmem info $pool | tee /tmp/shown
    grep -q '^memory *persistent memory (DAX, MAP_SYNC, eADR)$' /tmp/shown
    grep -q '^stores *streaming .*, no flush$' /tmp/shown
    expect "as the kernel calls it" "$(cat /sys/bus/nd/devices/"$(region_of ACPI.NFIT)"/persistence_domain)" cpu_cache
}

is_still_there() {
    esker pmem check $pool
    acknowledged check $database $((acknowledged + 1)) $pool
    expect "value" "$(esker get $database after --pool $pool)" reset
}

case $boot in 3)
    check "eadr: info says so" says_that_caches_survive
    [ "$acknowledged" = -1 ] ||
        check "eadr: all that was acknowledged before the machine was killed in mid-write is there" is_still_there
    . ./checks/30-database.sh
    . ./checks/40-killed.sh
    ;;
esac
