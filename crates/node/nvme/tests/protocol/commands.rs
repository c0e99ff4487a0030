//! Commands and completions are what the specification's figures say.

use crate::handmade::bytes;
use esker_nvme::command::Sgl;
use esker_nvme::command::admin::{AdminCommand, GetLogPage, Identify};
use esker_nvme::command::fabrics::{
    ANY_CONTROLLER, Connect, ConnectData, ConnectError, FabricsCommand,
};
use esker_nvme::command::kv::{Condition, Key, KvCommand, ListBuilder, listed};
use esker_nvme::command::nvm::{Blocks, NvmCommand};
use esker_nvme::{Nqn, Sqe, Status};

fn entry(fields: &[(usize, &[u8])]) -> Sqe {
    Sqe(bytes(64, fields).try_into().unwrap())
}

#[test]
fn a_key_of_16_bytes_stands_in_two_places() {
    let sqe = entry(&[
        (0, &[0x02, 0x40]),
        (4, &[1]),
        (8, b"abcdefgh"),
        (40, &[0x00, 0x10]),
        (44, &[16]),
        (56, b"ijklmnop"),
    ]);
    let key = Key::new(b"abcdefghijklmnop").unwrap();
    let retrieve = KvCommand::Retrieve { key, bytes: 4096 };
    assert_eq!(KvCommand::parse(&sqe), Ok(retrieve));
    assert_eq!(retrieve.encode(1), sqe);
}

#[test]
fn bytes_behind_a_keys_end_are_no_part_of_it() {
    let sqe = entry(&[(0, &[0x14]), (8, b"ab\xff\xff"), (44, &[2]), (56, b"\xff")]);
    assert_eq!(KvCommand::parse(&sqe), Ok(KvCommand::Exist { key: Key::new(b"ab").unwrap() }));
}

#[test]
fn keys_of_0_and_17_bytes_are_refused_and_a_list_may_start_without() {
    for opcode in [0x01, 0x02, 0x10, 0x14] {
        for length in [0, 17, 255] {
            let parsed = KvCommand::parse(&entry(&[(0, &[opcode]), (44, &[length])]));
            assert_eq!(parsed, Err(Status::INVALID_KEY_SIZE), "opcode {opcode:x}h, {length}");
        }
    }
    let list = entry(&[(0, &[0x06, 0x40]), (4, &[1]), (40, &[0x40])]);
    assert_eq!(KvCommand::parse(&list), Ok(KvCommand::List { from: None, bytes: 64 }));
    assert!(Key::new(b"").is_none() && Key::new(&[0; 17]).is_none());
}

#[test]
fn a_flush_of_keys_has_an_opcode_and_a_namespace() {
    let sqe = entry(&[(0, &[0x00, 0x40]), (4, &[3])]);
    assert_eq!(KvCommand::parse(&sqe), Ok(KvCommand::Flush));
    assert_eq!(KvCommand::Flush.encode(3), sqe);
}

#[test]
fn store_options_say_when() {
    let parsed = |options: u8| {
        let sqe = entry(&[(0, &[0x01]), (8, b"k"), (44, &[1, options])]);
        KvCommand::parse(&sqe).map(|command| match command {
            KvCommand::Store { condition, .. } => condition,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(parsed(0), Ok(Condition::Always));
    assert_eq!(parsed(1), Ok(Condition::IfExists));
    assert_eq!(parsed(2), Ok(Condition::IfAbsent));
    assert_eq!(parsed(4), Ok(Condition::Always), "do not compress: nothing is");
    assert_eq!(parsed(3), Err(Status::INVALID_FIELD), "both");
    assert_eq!(parsed(8), Err(Status::INVALID_FIELD), "unknown");
}

#[test]
fn a_list_counts_its_keys_and_pads_them() {
    let mut list = ListBuilder::new(Vec::new(), 24);
    assert!(list.push(b"a") && list.push(b"bcd"));
    assert!(!list.push(b"123456789"), "it would end behind the buffer");
    assert!(list.push(b"12"));
    let data = list.finish();
    let expected = [3, 0, 0, 0, 1, 0, b'a', 0, 3, 0, b'b', b'c', b'd', 0, 0, 0, 2, 0, b'1', b'2'];
    assert_eq!(data, expected);
    let keys: Vec<_> = listed(&data).map(|key| key.unwrap().to_vec()).collect();
    assert_eq!(keys, [b"a".to_vec(), b"bcd".to_vec(), b"12".to_vec()]);
}

#[test]
fn a_list_that_says_more_than_it_has_ends_in_an_error() {
    let keys: Vec<_> = listed(&[9, 0, 0, 0, 1, 0, b'a', 0, 200, 0]).collect();
    assert_eq!(keys, [Some(&b"a"[..]), None]);
}

#[test]
fn a_buffer_too_small_for_the_count_holds_nothing() {
    let mut list = ListBuilder::new(Vec::new(), 3);
    assert!(!list.push(b"a"));
    assert!(list.finish().len() <= 3);
}

#[test]
fn connect_says_which_queue_and_how_long() {
    let sqe = entry(&[
        (0, &[0x7f, 0x40]),
        (4, &[1]),
        (32, &[0, 4, 0, 0]),
        (39, &[1]),
        (42, &[2, 0]),
        (44, &[127, 0]),
        (46, &[4]),
        (48, &[0x88, 0x13]),
    ]);
    let connect =
        Connect { queue: 2, entries_less_one: 127, no_flow_control: true, keep_alive_ms: 5000 };
    assert_eq!(FabricsCommand::parse(&sqe), Ok(FabricsCommand::Connect(connect)));
    assert_eq!(FabricsCommand::Connect(connect).encode(), sqe);
    assert_eq!(sqe.sgl(), Ok(Sgl::InCapsule { offset: 0, bytes: 1024 }));
}

#[test]
fn connect_data_says_who_wants_what() {
    let data = bytes(
        1024,
        &[
            (0, &[7; 16]),
            (16, &[0xff, 0xff]),
            (256, b"nqn.2024-01.sub"),
            (512, b"nqn.2024-01.host"),
        ],
    );
    let parsed = ConnectData::parse(&data).unwrap();
    assert_eq!(parsed.controller, ANY_CONTROLLER);
    assert_eq!(parsed.subsystem, Nqn::new("nqn.2024-01.sub").unwrap());
    assert_eq!(parsed.encode()[..], data[..]);
    let mut bad = data.clone();
    bad[512] = b'x';
    assert_eq!(ConnectData::parse(&bad), Err(ConnectError::data(512)));
    assert!(ConnectData::parse(&data[..1023]).is_err());
}

#[test]
fn properties_have_an_offset_and_a_width() {
    let get = entry(&[(0, &[0x7f]), (4, &[4]), (40, &[1]), (44, &[0])]);
    let expected = FabricsCommand::PropertyGet { offset: 0, wide: true };
    assert_eq!(FabricsCommand::parse(&get), Ok(expected));
    let set = entry(&[(0, &[0x7f]), (4, &[0]), (44, &[0x14]), (48, &[0x61, 0, 0x46])]);
    let expected = FabricsCommand::PropertySet { offset: 0x14, value: 0x0046_0061 };
    assert_eq!(FabricsCommand::parse(&set), Ok(expected));
}

#[test]
fn authentication_names_its_protocol() {
    let send = entry(&[(0, &[0x7f]), (4, &[5]), (41, &[1, 1, 0xe9]), (44, &[0x80])]);
    assert_eq!(FabricsCommand::parse(&send), Ok(FabricsCommand::AuthSend { bytes: 128 }));
    let other = entry(&[(0, &[0x7f]), (4, &[5]), (41, &[1, 1, 0xe8])]);
    assert_eq!(FabricsCommand::parse(&other), Err(Status::INVALID_FIELD));
}

#[test]
fn a_log_pages_length_is_in_words_and_0s_based() {
    let sqe = entry(&[(0, &[0x02, 0x40]), (40, &[0x70, 0, 0xff, 0]), (48, &[0, 4])]);
    let page = GetLogPage {
        page: 0x70,
        namespace: 0,
        command_set: 0,
        offset: 1024,
        bytes: 1024,
        retain_event: false,
    };
    assert_eq!(AdminCommand::parse(&sqe), Ok(AdminCommand::GetLogPage(page)));
    assert_eq!(AdminCommand::GetLogPage(page).encode(), sqe);
}

#[test]
fn identify_names_structure_namespace_and_command_set() {
    let sqe = entry(&[(0, &[0x06, 0x40]), (4, &[3]), (40, &[5]), (47, &[1])]);
    let identify = Identify { structure: 5, namespace: 3, command_set: 1 };
    assert_eq!(AdminCommand::parse(&sqe), Ok(AdminCommand::Identify(identify)));
    assert_eq!(AdminCommand::Identify(identify).encode(), sqe);
}

#[test]
fn admin_commands_round_trip() {
    for command in [
        AdminCommand::KeepAlive,
        AdminCommand::AsyncEventRequest,
        AdminCommand::Abort { queue: 3, command_id: 0x1234 },
        AdminCommand::SetFeatures { feature: 7, save: false, value: 0x0007_0007 },
        AdminCommand::GetFeatures { feature: 0x04, select: 3, value: 1 << 20 },
    ] {
        assert_eq!(AdminCommand::parse(&command.encode()), Ok(command));
    }
    assert_eq!(AdminCommand::parse(&entry(&[(0, &[0xff])])), Err(Status::INVALID_OPCODE));
}

#[test]
fn blocks_are_counted_from_one_and_held_against_the_namespace() {
    let sqe = entry(&[(0, &[0x01, 0x40]), (4, &[1]), (40, &[8]), (48, &[7, 0, 0, 0x40])]);
    let blocks = Blocks { first: 8, count: 8 };
    let write = NvmCommand::Write { blocks, force_unit_access: true };
    assert_eq!(NvmCommand::parse(&sqe), Ok(write));
    assert_eq!(write.encode(1), sqe);
    assert_eq!(blocks.bytes(512, 8192), Some((4096, 4096)));
    assert_eq!(blocks.bytes(512, 8191), None);
    assert_eq!(Blocks { first: u64::MAX, count: 1 }.bytes(512, u64::MAX), None);
}

#[test]
fn data_in_a_capsule_lies_inside_of_it() {
    let data = [0; 16];
    assert!(Sgl::InCapsule { offset: 8, bytes: 8 }.in_capsule(&data).is_ok());
    let beyond = Sgl::InCapsule { offset: 8, bytes: 9 }.in_capsule(&data);
    assert_eq!(beyond, Err(Status::DATA_SGL_LENGTH_INVALID));
    let outside = Sgl::InCapsule { offset: u64::MAX, bytes: 0 }.in_capsule(&data);
    assert_eq!(outside, Err(Status::SGL_OFFSET_INVALID));
    assert_eq!(entry(&[(39, &[0x02])]).sgl(), Err(Status::SGL_TYPE_INVALID));
    let transport = entry(&[(32, &[0, 0x80]), (39, &[0x5a])]).sgl();
    assert_eq!(transport, Ok(Sgl::Transport { bytes: 0x8000 }));
}
