//! Who may follow.

use crate::support::{Place, any, expect_error, expect_same, follower};
use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_nvme::tls::TlsKey;
use esker_replication::{Follower, FollowerSettings, Primary, PrimarySettings, ReplicationError};
use esker_target::{Access, HostAccess};

fn secret(byte: u8) -> Secret {
    use base64::Engine;
    let key = [byte; 32];
    let bytes = [&key[..], &crc32fast::hash(&key).to_le_bytes()].concat();
    let digits = base64::engine::general_purpose::STANDARD.encode(bytes);
    Secret::parse(&format!("DHHC-1:00:{digits}:")).unwrap()
}

fn host() -> Nqn {
    Nqn::new("nqn.2024-01.com.example:reports").unwrap()
}

/// Fails unless a follower with these settings gets this error of a primary where `host` has a secret.
#[track_caller]
fn expect_refused(
    change: impl Fn(FollowerSettings) -> FollowerSettings,
    is_so: impl Fn(&ReplicationError) -> bool,
) {
    let place = Place::new();
    let access = HostAccess::new(host()).secret(secret(1)).controller_secret(secret(2));
    let settings = PrimarySettings::new(any()).access(Access::Listed(vec![access]));
    let primary = Primary::start(place.db(), settings).unwrap();
    let settings = change(follower(primary.address()).host(host()));
    let follower = Follower::start(place.dir("copy"), settings).unwrap();
    expect_error(&follower, is_so);
    assert!(follower.db().is_none() && follower.stats().bases == 0);
}

fn says(what: &str) -> impl Fn(&ReplicationError) -> bool {
    move |error| error.to_string().contains(what)
}

#[test]
fn a_wrong_secret_or_none_is_refused() {
    let is_wrong =
        |error: &ReplicationError| matches!(error, ReplicationError::Authentication { .. });
    expect_refused(|settings| settings.secret(secret(9)), is_wrong);
    expect_refused(|settings| settings, says("none was given"));
    let wrong_node = |it: FollowerSettings| it.secret(secret(1)).controller_secret(secret(9));
    expect_refused(wrong_node, says("does not know the secret"));
    let other = Nqn::new("nqn.2024-01.com.example:other").unwrap();
    let unknown = |it: FollowerSettings| it.host(other.clone()).secret(secret(1));
    expect_refused(unknown, says("not among the hosts"));
}

#[test]
fn right_secrets_are_accepted_by_both_sides() {
    let place = Place::new();
    let db = place.db();
    let access = HostAccess::new(host()).secret(secret(1)).controller_secret(secret(2));
    let settings = PrimarySettings::new(any()).access(Access::Listed(vec![access]));
    let primary = Primary::start(db.clone(), settings).unwrap();
    let settings = follower(primary.address()).host(host());
    let settings = settings.secret(secret(1)).controller_secret(secret(2));
    let follower = Follower::start(place.dir("copy"), settings).unwrap();
    db.default_keyspace().put("a", "1").unwrap();
    expect_same(&follower, &db);
    // Hosts do not share names.
    let names: Vec<_> = db.change_consumers().into_iter().map(|info| info.name).collect();
    assert_eq!(names, [format!("follower {} a", host().as_str())]);
}

#[test]
fn a_follower_that_expects_a_proof_goes_on_with_nothing_less() {
    let place = Place::new();
    let primary = Primary::start(place.db(), PrimarySettings::new(any())).unwrap();
    let settings = follower(primary.address()).controller_secret(secret(2));
    let follower = Follower::start(place.dir("copy"), settings).unwrap();
    expect_error(&follower, says("proves nothing"));
}

const KEY: &str = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

fn with_key() -> PrimarySettings {
    let access = HostAccess::new(host()).tls_keys([TlsKey::parse(KEY).unwrap()]);
    PrimarySettings::new(any()).access(Access::Listed(vec![access]))
}

#[test]
fn a_host_with_a_tls_key_stays_out_without_it() {
    let place = Place::new();
    let primary = Primary::start(place.db(), with_key()).unwrap();
    let settings = follower(primary.address()).host(host());
    let follower = Follower::start(place.dir("copy"), settings).unwrap();
    expect_error(&follower, says("connects by TLS only"));
}

#[test]
fn a_host_follows_by_tls_and_needs_the_right_key() {
    if !esker_tls::IS_BUILT {
        let why = "built without TLS; --features esker-replication/tls has it";
        return esker_base::skipped("following by TLS", why);
    }
    let place = Place::new();
    let db = place.db();
    let primary = Primary::start(db.clone(), with_key()).unwrap();
    let settings = follower(primary.address()).host(host());
    let key = TlsKey::parse(KEY).unwrap();
    let follower =
        Follower::start(place.dir("copy"), settings.clone().tls_key(key.clone())).unwrap();
    (0..200_u8).for_each(|key| db.default_keyspace().put([key], [key; 3_000]).unwrap());
    expect_same(&follower, &db);
    drop(follower);
    let other = Nqn::new("nqn.2024-01.com.example:other").unwrap();
    let follower = Follower::start(place.dir("other"), settings.host(other).tls_key(key)).unwrap();
    // The primary may close the connection before its alert is read.
    let is_refused = |error: &ReplicationError| {
        matches!(error, ReplicationError::Authentication { .. } | ReplicationError::Lost { .. })
    };
    expect_error(&follower, is_refused);
    assert_eq!(follower.stats().bases, 0);
}
