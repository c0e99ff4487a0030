//! Who may connect: a file, because secrets have no place on a command line.

use crate::failure::{Failure, Outcome};
use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_target::HostAccess;
use std::path::Path;

/// Reads the file.
pub fn read(path: &Path) -> Outcome<Vec<HostAccess>> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::io("read", &name, error))?;
    parse(&text).map_err(|problem| Failure::Usage(format!("{name}: {problem}")))
}

/// One host a line: its name, its secret, the node's secret. `#` begins a comment.
fn parse(text: &str) -> Result<Vec<HostAccess>, String> {
    let lines = (1..).zip(text.lines().map(|line| line.split('#').next().unwrap_or_default()));
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(number, line)| host(line).map_err(|why| format!("line {number}: {why}"))).collect()
}

fn host(line: &str) -> Result<HostAccess, String> {
    let mut words = line.split_whitespace();
    let host = Nqn::new(words.next().unwrap_or_default()).map_err(|error| error.to_string())?;
    let mut secret = || words.next().map(Secret::parse).transpose();
    let (own, controller) = (secret(), secret());
    let access = HostAccess {
        host,
        secret: own.map_err(|error| error.to_string())?,
        controller_secret: controller.map_err(|error| error.to_string())?,
    };
    match words.next() {
        Some(_) => Err("more than a name and two secrets".to_owned()),
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
    fn what_is_wrong_is_told_by_line_and_without_the_secret() {
        let error = parse("nqn.a\nnqn.b DHHC-1:00:geheim:\n").unwrap_err();
        assert!(error.starts_with("line 2: ") && !error.contains("geheim"), "{error}");
        assert!(parse("host").is_err() && parse(&format!("nqn.a {SECRET} {SECRET} x")).is_err());
    }
}
