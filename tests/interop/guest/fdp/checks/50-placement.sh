# Placement reaches the disk: files of several lifetimes begin several reclaim units, and the disk counts what was
# written.

host_bytes() {
    nvme fdp stats "$disk" -e 1 | tee /tmp/counted >&2
    sed -n 's/.*Host Bytes.*: *\([0-9]*\).*/\1/p' /tmp/counted
}

uses_several_handles() {
    esker flash create --overwrite "$disk"
    before=$(host_bytes)
    random_records 20000 /tmp/records.tsv
    esker import "$disk" /tmp/records.tsv -k records --key id --value text --segment 4MiB
    esker flash info "$disk"
    after=$(host_bytes)
    # 20,000 records of 168 bytes at the least.
    [ $((after - before)) -gt 3000000 ]
    handles=$(begun_handles 2048)
    echo "$handles handles"
    [ "$handles" -ge 3 ]
}

check "placement: several handles are used, and the disk counts what was written" uses_several_handles
# What the disk says, whatever that is.
esker flash info "$disk" | tail -n 1 | sed 's/^/  | /'
sed -n 's/.*RUAMW.*: *//p' /tmp/handles | tr '\n' ' ' | sed 's/^/  | blocks left in the reclaim units: /; s/$/\n/'
