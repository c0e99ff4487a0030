# Controllers, by the name of their subsystem. `$GATEWAY` is the host's loopback, as QEMU's network has it.
GATEWAY=10.0.2.2

# Connects and waits until the namespace is there; further arguments go to nvme-cli.
connect() { # PORT NQN [OPTIONS...]
    local port=$1 nqn=$2
    shift 2
    nvme connect --transport=tcp --traddr=$GATEWAY --trsvcid="$port" --nqn="$nqn" "$@" || return
    wait_for 30 has_namespace "$nqn"
}

disconnect() { # NQN
    nvme disconnect --nqn="$1"
    expect "controllers left" "$(controllers "$1")" ""
}

# The controllers connected to a subsystem, such as nvme0.
controllers() { # NQN
    for folder in /sys/class/nvme/nvme*; do
        [ -e "$folder/subsysnqn" ] && [ "$(cat "$folder/subsysnqn")" = "$1" ] && basename "$folder"
    done
    return 0
}

controller() { # NQN
    controllers "$1" | head -n 1
}

attribute() { # NQN NAME
    cat "/sys/class/nvme/$(controller "$1")/$2"
}

has_namespace() { # NQN
    ls /dev/ng"$(controller "$1" | sed 's/nvme//')"n1 >/dev/null 2>&1
}

# The character device of a subsystem's first namespace.
generic() { # NQN
    echo "/dev/ng$(controller "$1" | sed 's/nvme//')n1"
}

# The block device of it.
block() { # NQN
    echo "/dev/$(controller "$1")n1"
}

is_in_state() { # NQN STATE
    [ "$(attribute "$1" state)" = "$2" ]
}
