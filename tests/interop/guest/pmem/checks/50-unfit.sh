# A pool that is not what the database left: a clear error, and nothing is changed by it.

# A database whose newest writes are in its pool alone, which is new or given.
leave_writes_in_pool() {
    rm -rf $database
    [ -e $pool ] || esker pmem create $pool --bytes 16MiB
    : >/tmp/acknowledged
    acknowledged load $database 0 $pool >/tmp/acknowledged &
    wait_for 100 is_loaded 200
    kill -9 $!
    wait $! || true
    count=$(($(last_acknowledged) + 1))
}

# Every command says so.
is_unfit() { # TEXT
    ls $database >/tmp/before
    for command in "put $database k v" "get $database k" "stats $database"; do
        refused 2 "$1" esker $command --pool $pool
    done
    # 1 if problems are found, 2 if nothing can be read.
    status=0
    esker check $database --pool $pool >/tmp/refusal 2>&1 || status=$?
    expect "whether the check fails, $status" $((status == 1 || status == 2)) 1
    grep -q "$1" /tmp/refusal
    ls $database | cmp - /tmp/before
}

restore() {
    rm -f $pool
    cp /tmp/pool $pool
}

bytes_at() { # OFFSET; standard input
    dd of=$pool bs=1 seek="$1" conv=notrunc
}

# CRC-32C of the first 60 bytes, as the header has it.
seal() {
    head -c 60 $pool | od -An -v -tu1 | awk '
        { for (i = 1; i <= NF; i++) { crc = i == 1 && NR == 1 ? 4294967295 : crc; crc = xor(crc, $i)
            for (bit = 0; bit < 8; bit++) crc = and(crc, 1) ? xor(rshift(crc, 1), 2197175160) : rshift(crc, 1) } }
        END { crc = xor(crc, 4294967295)
            for (byte = 0; byte < 4; byte++) printf "\\%03o", and(rshift(crc, 8 * byte), 255) }' >/tmp/checksum
    printf "$(cat /tmp/checksum)" | bytes_at 60
}

tells_what_is_wrong() {
    rm -rf $pool $dax/other $dax/other-pool
    leave_writes_in_pool
    cp $pool /tmp/pool
    rm $pool
    is_unfit "no such file"
    restore
    truncate -s 300000 $pool
    is_unfit "cut off"
    restore
    : >$pool
    is_unfit "it is empty"
    restore
    seal
    cmp $pool /tmp/pool
    printf '\011' | bytes_at 8
    seal
    is_unfit "format version 9"
    restore
    printf 'x' | bytes_at 20
    is_unfit "offset 60"
    esker pmem create $dax/other-pool --bytes 1MiB
    esker put --create $dax/other k theirs --pool $dax/other-pool
    cp $dax/other-pool $pool
    is_unfit "belongs to another database"
    restore
    acknowledged check $database $count $pool
    esker put $database k v --pool $pool
    acknowledged check $database $count $pool
}

first_block() {
    filefrag -v $pool | awk '$1 == "0:" { print $4 + 0 }'
}

has_block() { # BLOCK
    filefrag -v $pool | awk -v block="$1" '$1 ~ /^[0-9]+:$/ && $4 + 0 <= block && block <= $5 + 0 { found = 1 } END { exit !found }'
}

# A new pool where the old one was: there is no room for it elsewhere. ext4 keeps some 2,600 blocks for itself.
make_pool_again() {
    fallocate -l $((($(stat -f -c %f $dax) - 3500) * 4096)) $dax/filler
    rm $pool
    sync
    esker pmem create $pool --bytes 16MiB
    rm $dax/filler
}

# Tells the kernel that the NVDIMM can't be read at an offset of the pool, as it would find out by itself.
make_unreadable() { # OFFSET
    echo "$(($(first_block) * 8 + $1 / 512)) 8" >/sys/block/"$(basename "$nvdimm")"/badblocks
}

# In the header, in the only segment's frames, and in an extent that is free. What was bad once stays so until the machine
# is reset: nobody else gets it.
tells_of_bad_memory() {
    rm -f $pool
    leave_writes_in_pool
    make_unreadable $((9 << 20))
    esker pmem check $pool
    acknowledged check $database $count $pool
    esker put $database k v --pool $pool
    bad=$(($(first_block) + (9 << 8)))
    make_pool_again
    has_block $bad
    leave_writes_in_pool
    acknowledged check $database $count $pool
    esker put $database k v --pool $pool
    mv $pool $dax/bad-extent
    leave_writes_in_pool
    make_unreadable $((512 << 10))
    is_unfit "could not read"
    refused 1 "could not read" esker pmem check $pool
    refused 2 "could not read" esker repair $database --pool $pool
    mv $pool $dax/bad-segment
    leave_writes_in_pool
    make_unreadable 0
    is_unfit "could not read"
    mv $pool $dax/bad-header
}

check "unfit: no pool, one that was cut off, an empty one, of a newer format, a broken header, another database's" tells_what_is_wrong
check "unfit: memory that can't be read: an error where it matters, and no signal" tells_of_bad_memory
