# A database through the program: what goes in comes out. A disk of zones refuses a write that begins one more than may be
# active, so that a load without an error kept to the limit.

keeps_pairs() {
    esker flash create --overwrite "$disk"
    esker put --create "$disk" city Bremen
    expect "value" "$(esker get "$disk" city)" Bremen
    refused 1 "" esker get "$disk" village
    random_records 20000 /tmp/records.tsv
    esker import "$disk" /tmp/records.tsv -k records --key id --value text --segment 4MiB
    esker levels "$disk"
    esker export "$disk" -k records --format tsv | tail -n +2 >/tmp/exported.tsv
    tail -n +2 /tmp/records.tsv | cmp - /tmp/exported.tsv
}

# So that tables die and their zones are reset.
overwrites() {
    for round in 1 2; do
        random_records 20000 /tmp/records.tsv
        esker import "$disk" /tmp/records.tsv -k records --key id --value text --segment 4MiB
    done
    esker export "$disk" -k records --format tsv | tail -n +2 >/tmp/exported.tsv
    tail -n +2 /tmp/records.tsv | cmp - /tmp/exported.tsv
}

check "database: put, get, 20,000 records imported and exported" keeps_pairs
check "database: two imports over the first; the last is there" overwrites
