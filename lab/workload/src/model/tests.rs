//! The promises of `esker_api`, held to the model itself.

use super::*;

fn model(keys: &[&[u8]]) -> Model {
    let model = Model::new();
    for key in keys {
        model.put(key, key).unwrap();
    }
    model
}

fn forward(model: &Model, range: KeyRange) -> Vec<Vec<u8>> {
    let mut cursor = model.cursor(range).unwrap();
    cursor.seek_first().unwrap();
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.current() {
        keys.push(key.to_vec());
        cursor.next().unwrap();
    }
    keys
}

#[test]
fn the_newest_write_wins_and_a_delete_hides_it() {
    let model = model(&[b"a", b"b"]);
    model.put(b"a", b"2").unwrap();
    model.delete(b"b").unwrap();
    assert_eq!(model.get(b"a").unwrap().unwrap(), b"2");
    assert_eq!(model.get(b"b").unwrap(), None);
    assert_eq!(model.pairs(), [(b"a".to_vec(), b"2".to_vec())]);
    assert_eq!(model.writes(), 4);
}

#[test]
fn merges_append() {
    let model = model(&[b"a", b"b"]);
    let snapshot = model.snapshot().unwrap();
    let mut batch = WriteBatch::new();
    batch.merge(model.keyspace_ref(), b"a", b"1");
    batch.merge(model.keyspace_ref(), b"a", b"2");
    batch.delete(model.keyspace_ref(), b"b");
    batch.merge(model.keyspace_ref(), b"b", b"3");
    model.write(&batch).unwrap();
    assert_eq!(model.pairs(), [(b"a".to_vec(), b"a12".to_vec()), (b"b".to_vec(), b"3".to_vec())]);
    assert_eq!(model.get_at(b"a", &*snapshot).unwrap().unwrap(), b"a");
}

#[test]
fn a_snapshot_and_a_cursor_keep_their_moment() {
    let model = model(&[b"a", b"b", b"c"]);
    let snapshot = model.snapshot().unwrap();
    let mut cursor = model.cursor(KeyRange::all()).unwrap();
    model.delete_range((b"a"..b"c").into()).unwrap();
    model.put(b"d", b"new").unwrap();

    assert_eq!(model.get_at(b"a", &*snapshot).unwrap().unwrap(), b"a");
    assert_eq!(model.get_at(b"d", &*snapshot).unwrap(), None);
    cursor.seek_last().unwrap();
    assert_eq!(cursor.current().unwrap().0, b"c");
    cursor.prev().unwrap();
    assert_eq!(cursor.current().unwrap().0, b"b");
    let mut cursor = model.cursor_at(KeyRange::all(), &*snapshot).unwrap();
    cursor.seek_first().unwrap();
    assert_eq!(cursor.current().unwrap().0, b"a");
    assert_eq!(forward(&model, KeyRange::all()), [b"c", b"d"]);
}

#[test]
fn cursors_stay_inside_their_range() {
    let model = model(&[b"a", b"b", b"c", b"d"]);
    let range = KeyRange::of(b"b".as_slice()..b"d".as_slice());
    assert_eq!(forward(&model, range.clone()), [b"b", b"c"]);
    let mut cursor = model.cursor(range).unwrap();
    cursor.seek(b"a").unwrap();
    assert_eq!(cursor.current().unwrap().0, b"b");
    cursor.seek_back(b"z").unwrap();
    assert_eq!(cursor.current().unwrap().0, b"c");
    cursor.next().unwrap();
    assert_eq!(cursor.current(), None);
    cursor.seek(b"d").unwrap();
    assert_eq!(cursor.current(), None);
    cursor.seek_back(b"a").unwrap();
    assert_eq!(cursor.current(), None);
}

#[test]
fn seeks_land_on_the_key_or_its_neighbour() {
    let model = model(&[b"b", b"d"]);
    let mut cursor = model.cursor(KeyRange::all()).unwrap();
    for (key, at_or_after, at_or_before) in [
        (&b"a"[..], Some(&b"b"[..]), None),
        (b"b", Some(b"b"), Some(&b"b"[..])),
        (b"c", Some(b"d"), Some(b"b")),
        (b"e", None, Some(b"d")),
    ] {
        cursor.seek(key).unwrap();
        assert_eq!(cursor.current().map(|pair| pair.0), at_or_after);
        cursor.seek_back(key).unwrap();
        assert_eq!(cursor.current().map(|pair| pair.0), at_or_before);
    }
}

#[test]
fn batches_that_must_be_refused_change_nothing() {
    let model = Model::new();
    let refused = |fill: &dyn Fn(&mut WriteBatch)| {
        let mut batch = WriteBatch::new();
        batch.put(model.keyspace_ref(), b"good", b"");
        fill(&mut batch);
        model.write(&batch).unwrap_err()
    };
    let default = model.keyspace_ref();
    let other = esker_base::KeyspaceId(7);
    assert!(matches!(refused(&|batch| batch.delete_range(default, b"b"..b"a")), Error::EmptyRange));
    assert!(matches!(
        refused(&|batch| batch.put(default, [0; MAX_KEY_BYTES + 1], b"")),
        Error::KeyTooLong { .. }
    ));
    assert!(matches!(refused(&|batch| batch.put(other, b"k", b"")), Error::UnknownKeyspace { .. }));
    assert_eq!(model.pairs(), []);
}
