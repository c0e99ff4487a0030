//! Identify structures and log pages: fields where initiators look for them.

use esker_nvme::Nqn;
use esker_nvme::command::CommandSet;
use esker_nvme::identify::{
    self, Controller, ControllerKind, IDENTIFY_BYTES, KvNamespace, NvmNamespace,
};
use esker_nvme::log_page::{
    Discovery, DiscoveryEntry, FirmwareSlot, Health, SubsystemKind, command_effects,
    parse_discovery,
};

const GUID: [u8; 16] = *b"0123456789abcdef";

fn controller(kind: ControllerKind) -> Controller {
    let mut controller = Controller::new(kind, 7, Nqn::new("nqn.2024-01.sub").unwrap());
    controller.serial = "S1".to_owned();
    controller.namespaces = 2;
    controller
}

#[test]
fn a_controllers_fields_stand_where_initiators_look() {
    let mut out = [0xff; IDENTIFY_BYTES];
    controller(ControllerKind::Io).encode(&mut out);
    assert_eq!(out[4..26], *b"S1                  Es");
    assert_eq!((out[77], out[78..80].to_vec()), (8, vec![7, 0]), "MDTS, CNTLID");
    assert_eq!(out[80..84], [0, 0, 2, 0], "VER");
    assert_eq!(out[111], 1, "CNTRLTYPE");
    assert_eq!((out[512], out[513]), (0x66, 0x44), "SQES, CQES");
    assert_eq!((out[516], out[525]), (2, 0), "NN, VWC");
    assert_eq!(out[536..540], [1, 0, 0x30, 0], "SGLS");
    assert_eq!(out[768..784], *b"nqn.2024-01.sub\0");
    assert_eq!(out[1792..1796], ((64 + 65_536) / 16u32).to_le_bytes(), "IOCCSZ");
    assert_eq!((out[1796], out[1803]), (1, 1), "IORCSZ, MSDBD");
}

#[test]
fn a_controller_round_trips() {
    for kind in [ControllerKind::Io, ControllerKind::Discovery] {
        let mut out = [0; IDENTIFY_BYTES];
        let mut controller = controller(kind);
        if kind == ControllerKind::Discovery {
            controller.namespaces = 0;
        }
        controller.encode(&mut out);
        assert_eq!(Controller::parse(&out), Ok(controller));
    }
}

#[test]
fn a_namespace_of_keys_says_how_long_they_and_values_may_be() {
    let mut out = [0; IDENTIFY_BYTES];
    let namespace = KvNamespace {
        capacity_bytes: 1 << 40,
        used_bytes: 5,
        key_bytes_max: 16,
        value_bytes_max: 1 << 20,
        keys_max: 0,
        guid: GUID,
        has_long_keys: true,
    };
    namespace.encode(&mut out);
    assert_eq!((out[5], out[8], out[16], out[25]), (1, 0, 5, 0), "NSZE, NUSE, one format");
    assert_eq!(out[48..64], GUID);
    assert_eq!((out[72], out[78]), (16, 16), "the key's and the value's limit");
    assert_eq!(KvNamespace::parse(&out), namespace);
}

#[test]
fn a_namespace_of_blocks_has_capacity_and_a_block_size() {
    let mut out = [0; IDENTIFY_BYTES];
    let namespace = NvmNamespace { blocks: 1000, block_bytes_log2: 12, guid: GUID };
    namespace.encode(&mut out);
    assert_eq!((&out[..2], &out[8..10]), (&[0xe8, 3][..], &[0xe8, 3][..]), "NSZE, NCAP");
    assert_eq!(out[130], 12, "LBADS of the first format");
    assert_eq!(NvmNamespace::parse(&out), namespace);
}

#[test]
fn identifiers_say_that_a_namespace_holds_keys() {
    let mut out = [0; IDENTIFY_BYTES];
    identify::descriptors(&GUID, CommandSet::KeyValue, &mut out);
    assert_eq!(out[..4], [2, 16, 0, 0]);
    assert_eq!(out[4..20], GUID);
    assert_eq!(out[20..24], [3, 16, 0, 0], "a UUID");
    assert_eq!(out[24..40], identify::uuid(&GUID));
    assert_eq!((out[30] >> 4, out[32] >> 6), (8, 2), "its version and variant");
    assert_eq!(out[40..46], [4, 1, 0, 0, 1, 0]);
    assert_eq!(identify::command_set_of(&out), Some(CommandSet::KeyValue));
    out[44] = 9;
    assert_eq!(identify::command_set_of(&out), None, "a set that is not known here");
}

#[test]
fn a_uuid_is_written_in_five_groups() {
    let guid = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0x11, 0x22, 0, 0, 0, 0, 0, 0xff];
    let text = identify::uuid_text(&identify::uuid(&guid));
    assert_eq!(text, "12345678-9abc-8ef0-9122-0000000000ff");
}

#[test]
fn lists_hold_the_ids_above_the_one_named() {
    let mut out = [0; IDENTIFY_BYTES];
    identify::namespaces([1, 2, 5].into_iter(), 1, &mut out);
    assert_eq!(out[..12], [2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(identify::listed(&out).collect::<Vec<_>>(), [2, 5]);
    identify::namespaces(1..5000, 0, &mut out);
    assert_eq!(identify::listed(&out).count(), 1024);
}

#[test]
fn the_small_structures() {
    let mut out = [0xff; IDENTIFY_BYTES];
    for is_ready in [true, false] {
        identify::independent_namespace(is_ready, &mut out);
        assert_eq!((out[14], identify::is_ready(&out)), (is_ready.into(), is_ready), "NSTAT");
    }
    identify::command_sets(&mut out);
    assert_eq!(out[..8], [3, 0, 0, 0, 0, 0, 0, 0], "NVM and Key Value together");
    KvNamespace::encode_controller(&mut out);
    assert_eq!(out[..4], [0, 3, 1, 0]);
    NvmNamespace::encode_controller(&mut out);
    assert_eq!(out[..8], [0, 0, 0, 64, 0, 0, 0x20, 0], "DMRL, DMRSL");
    assert_eq!(out[8..17], [0, 0, 0x80, 0, 0, 0, 0, 0, 0], "DMSL");
}

#[test]
fn effects_name_the_commands_there_are() {
    let mut out = [0; IDENTIFY_BYTES];
    command_effects(CommandSet::KeyValue, &mut out);
    let io = |opcode: usize| out[1024 + opcode * 4];
    assert_eq!((io(0), io(1), io(2), io(6), io(0x10), io(0x14)), (1, 3, 1, 1, 3, 1));
    assert_eq!((io(0x03), io(0x15)), (0, 0));
    assert_eq!((out[0x18 * 4], out[0x06 * 4], out[0]), (1, 1, 0), "keep alive, identify");
}

#[test]
fn the_discovery_log_says_where_to_connect() {
    let entry = DiscoveryEntry {
        kind: SubsystemKind::Io,
        subsystem: Nqn::new("nqn.2024-01.sub").unwrap(),
        address: "127.0.0.1:4420".parse().unwrap(),
        port: 1,
        requires_tls: false,
    };
    let address = "[::1]:4421".parse().unwrap();
    let v6 = DiscoveryEntry { address, requires_tls: true, ..entry.clone() };
    let page = Discovery { generation: 3, entries: vec![entry, v6] };
    let out = page.encode();
    assert_eq!((out.len(), out[0], out[8]), (3072, 3, 2), "GENCTR, NUMREC");
    let first = &out[1024..];
    assert_eq!(first[..4], [3, 1, 2, 2], "TRTYPE, ADRFAM, SUBTYPE, TREQ");
    assert_eq!(first[6..8], [0xff, 0xff], "CNTLID");
    assert_eq!(&first[32..37], b"4420 ");
    assert_eq!(&first[256..272], b"nqn.2024-01.sub\0");
    assert_eq!(&first[512..522], b"127.0.0.1 ");
    assert_eq!(first[768], 0, "TSAS: no secure channel");
    assert_eq!(out[2049], 2, "ADRFAM of the second");
    assert_eq!((out[2051], out[2048 + 768]), (1, 2), "TREQ: required, TSAS: TLS 1.3");
    assert_eq!(parse_discovery(&out), Ok((page, 2)));
}

#[test]
fn health_counts_in_thousands_of_512_bytes() {
    let health = Health { read_bytes: 1, written_bytes: 512_001, reads: 9, ..Health::default() };
    let out = health.encode();
    assert_eq!((out[3], out[32], out[48], out[64]), (100, 1, 2, 9));
    assert_eq!((out[0], out[160]), (0, 0));
    let health = Health { is_unreliable: true, integrity_errors: 3, ..Health::default() };
    let out = health.encode();
    assert_eq!((out[0], out[160]), (1 << 2, 3), "a critical warning, and why");
    assert_eq!(FirmwareSlot("0.1.0".to_owned()).encode()[8..13], *b"0.1.0");
}
