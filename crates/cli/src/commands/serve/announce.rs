//! What a node says at its start: where it is, and the commands that reach it.

use super::namespace::Served;
use crate::failure::Outcome;
use crate::output::stdout;
use esker_nvme::Nqn;
use esker_nvme::command::CommandSet;
use esker_nvme::identify::{uuid, uuid_text};
use esker_replication::Primary;
use serde_json::{Value as Json, json};
use std::io::Write;
use std::net::SocketAddr;

/// Where a node listens.
pub struct Addresses {
    pub node: SocketAddr,
    pub metrics: Option<SocketAddr>,
}

/// The same as JSON.
pub fn facts(nqn: &Nqn, addresses: &Addresses, served: &[Served]) -> Json {
    let text = |address: SocketAddr| address.to_string();
    let namespaces = (1..).zip(served).map(|(number, served): (u32, _)| {
        json!({
            "namespace": number,
            "uuid": uuid_text(&uuid(&served.namespace.guid())),
            "what": served.what,
            "ready": served.namespace.is_ready(),
            "followers": served.primary.as_ref().map(|primary| text(primary.address())),
        })
    });
    json!({
        "address": text(addresses.node),
        "subsystem": nqn.to_string(),
        "metrics": addresses.metrics.map(text),
        "namespaces": namespaces.collect::<Vec<_>>(),
    })
}

/// Says it.
pub fn announce(nqn: &Nqn, addresses: &Addresses, served: &[Served]) -> Outcome {
    let Addresses { node: address, metrics } = *addresses;
    let (ip, port) = (address.ip(), address.port());
    let mut out = stdout();
    writeln!(out, "listening on {address}, subsystem {nqn}")?;
    if let Some(metrics) = metrics {
        writeln!(out, "metrics on http://{metrics}/metrics, health on http://{metrics}/health")?;
    }
    for (number, served) in (1..).zip(served) {
        writeln!(out, "namespace {number}: {}", served.what)?;
        if let Some(at) = served.primary.as_ref().map(Primary::address) {
            writeln!(out, "followers of namespace {number} on {at}: esker follow {at} DIRECTORY")?;
        }
    }
    let has_keys = |served: &Served| {
        let set = served.namespace.description().command_set();
        served.namespace.is_ready() && set == CommandSet::KeyValue
    };
    if let Some(first) = served.iter().position(has_keys) {
        let namespace = first + 1;
        writeln!(out, "From here:")?;
        writeln!(out, "  esker nvme ping --address {address} --nqn {nqn} --namespace {namespace}")?;
    }
    writeln!(
        out,
        "With the kernel's initiator, which numbers devices in its own order (find yours by its UUID):"
    )?;
    writeln!(out, "  nvme discover -t tcp -a {ip} -s {port}")?;
    writeln!(out, "  nvme connect -t tcp -a {ip} -s {port} -n {nqn}")?;
    let ready = (1..).zip(served).filter(|(_, served)| served.namespace.is_ready());
    for (number, served) in ready {
        let namespace = served.namespace.as_ref();
        if namespace.has_long_keys() {
            writeln!(
                out,
                "  # namespace {number} has keys of any length, which take `esker nvme`: for others a key is its hash"
            )?;
            continue;
        }
        let uuid = uuid_text(&uuid(&namespace.guid()));
        for line in commands(number, namespace.description().command_set(), &uuid) {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(out.flush()?)
}

/// Commands of nvme-cli, which has none for keys: the key `k` is 6Bh in CDW2, its length in CDW11.
/// The device's name has nothing to do with the namespace's id.
fn commands(number: u32, set: CommandSet, uuid: &str) -> Vec<String> {
    match set {
        CommandSet::KeyValue => {
            // There are no links to generic devices.
            let find = format!(
                "dev=$(for d in /dev/ng*n*; do nvme ns-descs $d 2>&1 | grep -q {uuid} && echo $d; done | head -n 1)    # namespace {number}"
            );
            let all = format!("nvme io-passthru $dev -n {number}");
            let pass = format!("{all} --cdw2=0x6b --cdw11=1");
            vec![
                find,
                format!("printf hello | {pass} -o 0x01 -w -l 5 --cdw10=5    # store"),
                format!("{pass} -o 0x02 -r -b -l 4096 --cdw10=4096    # retrieve"),
                format!("{pass} -o 0x14    # exist"),
                format!("{all} -o 0x06 -r -b -l 4096 --cdw10=4096    # list"),
                format!("{pass} -o 0x10    # delete"),
            ]
        }
        CommandSet::Nvm => vec![format!(
            "nvme read /dev/disk/by-id/nvme-uuid.{uuid} -s 0 -c 0 -z 4096    # namespace {number}"
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_device_is_named_by_a_number() {
        for set in [CommandSet::KeyValue, CommandSet::Nvm] {
            let lines = commands(3, set, "12345678-9abc-8ef0-9122-0000000000ff");
            assert!(lines[0].contains("12345678-9abc-8ef0-9122-0000000000ff"));
            let numbered = ["/dev/nvme", "/dev/ng0"];
            assert!(lines.iter().all(|line| !numbered.iter().any(|name| line.contains(name))));
        }
    }
}
