# A database through the program: what goes in comes out.

keeps_pairs() {
    rm -rf $database $pool
    esker pmem create $pool --bytes 64MiB
    esker put --create $database city Bremen --pool $pool
    expect "value" "$(esker get $database city --pool $pool)" Bremen
    refused 1 "" esker get $database village --pool $pool
    random_records 20000 /tmp/records.tsv
    esker import $database /tmp/records.tsv -k records --key id --value text --pool $pool
    esker export $database -k records --format tsv --pool $pool | tail -n +2 >/tmp/exported.tsv
    tail -n +2 /tmp/records.tsv | cmp - /tmp/exported.tsv
    esker check $database --pool $pool
    esker pmem check $pool
    ! esker stats $database --pool $pool 2>&1 | grep -qi emulated
}

# So that extents are used again.
overwrites() {
    for round in 1 2 3; do
        random_records 20000 /tmp/records.tsv
        esker import $database /tmp/records.tsv -k records --key id --value text --pool $pool
    done
    esker export $database -k records --format tsv --pool $pool | tail -n +2 >/tmp/exported.tsv
    tail -n +2 /tmp/records.tsv | cmp - /tmp/exported.tsv
    esker pmem check $pool
}

check "database: put, get, 20,000 records imported and exported" keeps_pairs
check "database: three imports over the first; the last is there" overwrites
