# Discovery, connection and description of a namespace of keys.

discovers() {
    nvme discover --transport=tcp --traddr=$GATEWAY --trsvcid="$KEYS_PORT" --output-format=normal | tee /tmp/discovery
    expect "records" "$(grep -c '^trtype: *tcp' /tmp/discovery)" 1
    grep "^subnqn: *$KEYS_NQN\$" /tmp/discovery
    grep "^trsvcid: *$KEYS_PORT\$" /tmp/discovery
    grep "^subtype: *nvme subsystem" /tmp/discovery
}

connects() {
    connect "$KEYS_PORT" "$KEYS_NQN" --nr-io-queues=2
    is_in_state "$KEYS_NQN" live
    expect "queues, the admin queue among them" "$(attribute "$KEYS_NQN" queue_count)" 3
}

is_generic_only() {
    [ -c "$(generic "$KEYS_NQN")" ]
    [ ! -e "$(block "$KEYS_NQN")" ]
}

identifies_controller() {
    nvme id-ctrl "/dev/$(controller "$KEYS_NQN")" | tee /tmp/identify
    grep "^subnqn *: $KEYS_NQN\$" /tmp/identify
    grep "^mn *: Esker" /tmp/identify
    grep "^vwc *: 0" /tmp/identify
    grep "^cntrltype *: 1" /tmp/identify
}

names_command_set() {
    nvme ns-descs "/dev/$(controller "$KEYS_NQN")" --namespace-id=1 | tee /tmp/descriptors
    grep "^csi *: 0x1\$" /tmp/descriptors
    grep "^nguid *: [0-9a-f]*[1-9a-f]" /tmp/descriptors
}

# Identify (06h) of the namespace (CNS 05h) for the KV command set (CSI 1, in CDW11's top byte).
identifies_namespace() {
    nvme admin-passthru "/dev/$(controller "$KEYS_NQN")" --opcode=0x06 --namespace-id=1 --cdw10=0x05 \
        --cdw11=0x01000000 --read --data-len=4096 --raw-binary >/tmp/identify
    expect "NSZE" "$(od -An -td8 -N8 /tmp/identify | tr -d ' ')" "$KEYS_BYTES"
    expect "number of formats, less one" "$(od -An -tu1 -j25 -N1 /tmp/identify | tr -d ' ')" 0
    expect "format 0: longest key" "$(od -An -tu2 -j72 -N2 /tmp/identify | tr -d ' ')" 16
    expect "format 0: longest value" "$(od -An -tu4 -j76 -N4 /tmp/identify | tr -d ' ')" 1048576
}

check "discover: the log page names the subsystem, its port and kind" discovers
check "connect: live, with two I/O queues" connects
check "connect: keys are a generic character device, no block device" is_generic_only
check "identify: the controller, and no volatile cache" identifies_controller
check "identify: the namespace's descriptors name command set 1" names_command_set
check "identify: the KV namespace's size, key and value limits" identifies_namespace
