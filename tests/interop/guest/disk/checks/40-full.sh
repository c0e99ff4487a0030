# A disk that becomes full: an error that says so, and nothing lost.

becomes_full() {
    esker flash create --overwrite "$small"
    status=0
    acknowledged load "$small" 0 >/tmp/acknowledged 2>/tmp/error || status=$?
    cat /tmp/error
    expect "status" "$status" 1
    grep -q "StorageFull" /tmp/error
    esker flash info "$small"
    acknowledged check "$small" $(($(last_acknowledged) + 1))
}

check "full: a load until the disk is; all that was acknowledged is there" becomes_full
