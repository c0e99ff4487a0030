# What checks of databases share: refusals, records, and a load that says what was acknowledged.

# Emulated processors are slow.
SECONDS_MAX=300

# After a reset only what it left is of interest.
begin_checks() {
    set -- $(ask boot)
    boot=$1 acknowledged=$2
    [ "$boot" = 1 ] || CHECKS=reset
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
