# What checks of disks share.

# Zones that are open, implicitly (20h) or explicitly (30h), or closed (40h), as nvme-cli tells.
active_zones() {
    nvme zns report-zones "$zoned" >/tmp/zones
    [ "$(grep -c 'State: 0x' /tmp/zones)" = "$ZONES" ] || { cat /tmp/zones; return 1; }
    grep -c 'State: 0x[234]0' /tmp/zones || true
}

# Fails with this status, and says something about that.
refused() { # STATUS TEXT COMMAND...
    local wanted=$1 text=$2 status=0
    shift 2
    "$@" >/tmp/refusal 2>&1 || status=$?
    cat /tmp/refusal
    expect "status of $*" "$status" "$wanted"
    grep -q "$text" /tmp/refusal
}

# Lines with a number and random letters, as `esker import` takes them and `esker export` gives them back.
random_records() { # COUNT FILE
    {
        printf 'id\ttext\n'
        head -c $(($1 * 120)) /dev/urandom | base64 -w 160 | awk '{ printf "%08d\t%s\n", NR, $0 }'
    } >"$2"
}

# How far the load in /tmp/acknowledged has come.
is_loaded() { # COUNT
    [ "$(wc -l </tmp/acknowledged)" -ge "$1" ]
}

last_acknowledged() {
    sed -n 's/^acknowledged \([0-9]*\)$/\1/p' /tmp/acknowledged | tail -n 1
}
