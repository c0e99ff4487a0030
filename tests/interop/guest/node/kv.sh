# The Key Value command set by hand, through the kernel's passthrough: nvme-cli has no KV commands.
#
# KV Command Set 1.0c. A command's 64 bytes, as far as nvme-cli lets us set them:
#
#   bytes 8-15   CDW2-3    the key's bytes 0-7
#   bytes 40-43  CDW10     bytes of the value, or of the host's buffer
#   bytes 44-47  CDW11     key length [7:0], store options [15:8]
#   bytes 56-63  CDW14-15  the key's bytes 8-15
#
# Keys are given in hexadecimal here, two digits a byte.
STORE=0x01 RETRIEVE=0x02 LIST=0x06 DELETE=0x10 EXIST=0x14
ONLY_IF_EXISTS=1 ONLY_IF_ABSENT=2

# Status codes, as nvme-cli prints them: "do not retry" (bit 14) and the code, type 0.
INVALID_VALUE_SIZE=4085 INVALID_KEY_SIZE=4086 NO_SUCH_KEY=4087 KEY_EXISTS=4089

hex() { # TEXT
    printf %s "$1" | xxd -p | tr -d '\n'
}

# Any key length can be claimed with KEY_LENGTH=, also a wrong one. Processes are dear where a processor is emulated, so
# the shell does all this by itself.
kv() { # DEVICE OPCODE KEY CDW10 OPTIONS [NVME-CLI'S OPTIONS...]
    local device=$1 opcode=$2 key=$3 size=$4 options=$5 k
    shift 5
    k=${key}00000000000000000000000000000000
    nvme io-passthru "$device" --namespace-id=1 --opcode="$opcode" \
        --cdw2="0x${k:6:2}${k:4:2}${k:2:2}${k:0:2}" --cdw3="0x${k:14:2}${k:12:2}${k:10:2}${k:8:2}" \
        --cdw10="$size" --cdw11=$((${KEY_LENGTH:-${#key} / 2} | options << 8)) \
        --cdw14="0x${k:22:2}${k:20:2}${k:18:2}${k:16:2}" --cdw15="0x${k:30:2}${k:28:2}${k:26:2}${k:24:2}" "$@"
}

kv_store() { # DEVICE KEY FILE [OPTIONS]
    local bytes
    bytes=$(stat -c %s "$3")
    # nvme-cli wants neither file nor direction for a value without bytes.
    [ "$bytes" -gt 0 ] || { kv "$1" $STORE "$2" 0 "${4:-0}"; return; }
    kv "$1" $STORE "$2" "$bytes" "${4:-0}" --write --data-len="$bytes" --input-file="$3"
}

# The value goes to the standard output, buffer and all; what nvme-cli says to the standard error.
kv_retrieve() { # DEVICE KEY BUFFER-BYTES
    kv "$1" $RETRIEVE "$2" "$3" 0 --read --raw-binary --data-len="$3"
}

kv_list() { # DEVICE FROM-KEY BUFFER-BYTES
    kv "$1" $LIST "$2" "$3" 0 --read --raw-binary --data-len="$3"
}

kv_delete() { kv "$1" $DELETE "$2" 0 0; } # DEVICE KEY

kv_exist() { kv "$1" $EXIST "$2" 0 0; } # DEVICE KEY

# The status that a command ends with: 0, or what nvme-cli says in hexadecimal.
status_of() { # COMMAND...
    local said
    if said=$("$@" 2>&1 >/dev/null </dev/null); then
        echo 0
    else
        echo "$said" | sed -n 's/.*(0x\([0-9a-f]*\)).*/\1/p'
    fi
}

# Dword 0 of a command's completion, as a number.
result_of() { # COMMAND...
    local said
    said=$("$@" 2>&1 >/dev/null)
    echo $(($(echo "$said" | sed -n 's/.*result: *\(0x[0-9a-f]*\).*/\1/p')))
}

# A value that no other has.
random_value() { # BYTES FILE
    head -c "$1" /dev/urandom >"$2"
}
