# One check: a line "PASS what" or "FAIL what", and after a failure what its commands and the kernel said.
#
#   check WHAT FUNCTION [ARGUMENTS]     the function fails if one of its commands does (`set -e`)

# A check that takes longer hangs; what it hangs on may hang others, so it ends the run.
SECONDS_MAX=120

check() {
    what=$1
    shift
    dmesg -c >/dev/null
    (set -eu; "$@") >/tmp/said 2>&1 &
    check=$!
    tries=$((SECONDS_MAX * PATIENCE * 10))
    while kill -0 $check 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || give_up
        usleep 100000
    done
    if wait $check; then
        echo "PASS $what"
    else
        echo "FAIL $what"
        say_more
    fi
}

say_more() {
    tail -n 30 /tmp/said | sed 's/^/  | /'
    dmesg | tail -n 12 | sed 's/^/  | kernel: /'
}

give_up() {
    echo "FAIL $what (hangs)"
    echo w >/proc/sysrq-trigger
    say_more
    ps | grep ' nvme ' | sed 's/^/  | /'
    poweroff -f
}

# Fails, and says what was expected.
expect() { # WHAT FOUND WANTED
    [ "$2" = "$3" ] || { echo "$1: found '$2', wanted '$3'"; return 1; }
}

# Waits until a command succeeds, at most so many seconds, or as many times longer as the script outside says.
wait_for() { # SECONDS COMMAND...
    local waits=$(($1 * PATIENCE * 10))
    shift
    until "$@"; do
        waits=$((waits - 1))
        [ $waits -gt 0 ] || { echo "waited in vain for: $*"; return 1; }
        usleep 100000
    done
}

# Asks the script outside for something, and waits for the answer, which comes on the same serial port. A line before
# it may have been cut off by a reset.
ask() { # REQUEST
    printf '\nHOST %s\n' "$1" >/dev/ttyS1
    read -r answer </dev/ttyS1
    echo "$answer"
}

# The same, where the answer is that it is done.
ask_host() { # REQUEST
    expect "the host's answer" "$(ask "$1")" done
}
