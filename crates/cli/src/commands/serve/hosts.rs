//! Who may connect: a file, because secrets have no place on a command line.

use crate::failure::{Failure, Outcome};
use crate::secret_file;
use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_nvme::tls::TlsKey;
use esker_target::HostAccess;
use esker_tls::TlsError;
use std::path::Path;

/// Reads the file.
///
/// # Errors
///
/// Also if a host has a TLS key and this program has no TLS.
pub fn read(path: &Path) -> Outcome<Vec<HostAccess>> {
    let name = path.display().to_string();
    let text = secret_file::read("--hosts", path)?;
    let hosts = parse(&text).map_err(|problem| Failure::Usage(format!("{name}: {problem}")))?;
    if !esker_tls::IS_BUILT && hosts.iter().any(|host| !host.tls_keys.is_empty()) {
        return Err(Failure::Usage(format!("{name} has a TLS key: {}", TlsError::NotBuilt)));
    }
    Ok(hosts)
}

/// One host a line: its name, its secret, the node's secret, and TLS keys, which may be anywhere
/// behind the name. `#` begins a comment.
fn parse(text: &str) -> Result<Vec<HostAccess>, String> {
    let lines = (1..).zip(text.lines().map(|line| line.split('#').next().unwrap_or_default()));
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let mut hosts: Vec<HostAccess> = Vec::new();
    let mut numbers = Vec::new();
    for (number, line) in lines {
        let host = host(line).map_err(|why| format!("line {number}: {why}"))?;
        if let Some(first) = hosts.iter().position(|known| known.host == host.host) {
            let (name, first) = (host.host, numbers[first]);
            return Err(format!(
                "line {number}: {name} is in line {first} already; put its secrets and keys into one line"
            ));
        }
        hosts.push(host);
        numbers.push(number);
    }
    Ok(hosts)
}

fn host(line: &str) -> Result<HostAccess, String> {
    let mut words = line.split_whitespace();
    let host = Nqn::new(words.next().unwrap_or_default()).map_err(|error| error.to_string())?;
    let (keys, secrets): (Vec<&str>, Vec<&str>) =
        words.partition(|word| word.starts_with(TlsKey::PREFIX));
    let keys = keys.into_iter().map(TlsKey::parse).collect::<Result<Vec<_>, _>>();
    let secrets = secrets.into_iter().map(Secret::parse).collect::<Result<Vec<_>, _>>();
    let mut secrets = secrets.map_err(|error| error.to_string())?.into_iter();
    let access = HostAccess::new(host)
        .secret(secrets.next())
        .controller_secret(secrets.next())
        .tls_keys(keys.map_err(|error| error.to_string())?);
    match secrets.next() {
        Some(_) => Err("more than a name, two secrets and TLS keys".to_owned()),
        None => Ok(access),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

    #[test]
    fn a_line_is_a_host_and_up_to_two_secrets() {
        let text = format!("# hosts\nnqn.a\n\nnqn.b {SECRET}  # b\nnqn.c {SECRET} {SECRET}\n");
        let hosts = parse(&text).unwrap();
        let known: Vec<_> = hosts
            .iter()
            .map(|host| {
                let (own, node) = (host.secret.is_some(), host.controller_secret.is_some());
                (host.host.as_str(), own, node)
            })
            .collect();
        assert_eq!(known, [("nqn.a", false, false), ("nqn.b", true, false), ("nqn.c", true, true)]);
    }

    #[test]
    fn tls_keys_stand_anywhere_behind_the_name() {
        const KEY: &str = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
        let text = format!("nqn.a {KEY}\nnqn.b {SECRET} {KEY} {SECRET} {KEY}\n");
        let known: Vec<_> = parse(&text)
            .unwrap()
            .iter()
            .map(|host| {
                (host.secret.is_some(), host.controller_secret.is_some(), host.tls_keys.len())
            })
            .collect();
        assert_eq!(known, [(false, false, 1), (true, true, 2)]);
        let error = parse("nqn.a NVMeTLSkey-1:01:geheim:\n").unwrap_err();
        assert!(error.starts_with("line 1: ") && !error.contains("geheim"), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, format!("nqn.a {KEY}\n")).unwrap();
        assert_eq!(read(file.path()).is_ok(), esker_tls::IS_BUILT);
    }

    #[test]
    fn a_host_has_one_line() {
        let error = parse(&format!("nqn.a\nnqn.b\n\nnqn.a {SECRET}\n")).unwrap_err();
        assert!(error.starts_with("line 4: nqn.a is in line 1 already"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_told_by_line_and_without_the_secret() {
        let error = parse("nqn.a\nnqn.b DHHC-1:00:geheim:\n").unwrap_err();
        assert!(error.starts_with("line 2: ") && !error.contains("geheim"), "{error}");
        assert!(parse("host").is_err() && parse(&format!("nqn.a {SECRET} {SECRET} x")).is_err());
    }
}
