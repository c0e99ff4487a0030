//! What a node says at its start: where it is, and the commands that reach it.

use super::namespace::Served;
use crate::commands::stdout;
use crate::failure::Outcome;
use esker_nvme::Nqn;
use esker_nvme::command::CommandSet;
use std::io::Write;
use std::net::SocketAddr;

/// Says it.
pub fn announce(
    nqn: &Nqn,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    is_open: bool,
    served: &[Served],
) -> Outcome {
    let (ip, port) = (address.ip(), address.port());
    let mut out = stdout();
    writeln!(out, "listening on {address}, subsystem {nqn}")?;
    if let Some(metrics) = metrics {
        writeln!(out, "metrics on http://{metrics}/metrics, health on http://{metrics}/health")?;
    }
    if is_open && !ip.is_loopback() {
        writeln!(
            out,
            "everybody who reaches this address can read and write: --hosts, or `hosts` in the configuration, says who may"
        )?;
    }
    for (number, served) in (1..).zip(served) {
        writeln!(out, "namespace {number}: {}", served.what)?;
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
    writeln!(out, "With the kernel's initiator, whose first controller is nvme0:")?;
    writeln!(out, "  nvme discover -t tcp -a {ip} -s {port}")?;
    writeln!(out, "  nvme connect -t tcp -a {ip} -s {port} -n {nqn}")?;
    let ready = (1..).zip(served).filter(|(_, served)| served.namespace.is_ready());
    for (number, served) in ready {
        if served.namespace.has_long_keys() {
            writeln!(
                out,
                "  # namespace {number} has keys of any length, which take `esker nvme`: for others a key is its hash"
            )?;
            continue;
        }
        for line in commands(number, served.namespace.description().command_set()) {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(out.flush()?)
}

/// Commands of nvme-cli, which has none for keys: the key `k` is 6Bh in CDW2, its length in CDW11.
fn commands(number: u32, set: CommandSet) -> Vec<String> {
    match set {
        CommandSet::KeyValue => {
            let pass =
                format!("nvme io-passthru /dev/ng0n{number} -n {number} --cdw2=0x6b --cdw11=1");
            vec![
                format!("printf hello | {pass} -o 0x01 -w -l 5 --cdw10=5    # store"),
                format!("{pass} -o 0x02 -r -b -l 4096 --cdw10=4096    # retrieve"),
                format!("{pass} -o 0x14    # exist"),
                format!(
                    "nvme io-passthru /dev/ng0n{number} -n {number} -o 0x06 -r -b -l 4096 --cdw10=4096    # list"
                ),
                format!("{pass} -o 0x10    # delete"),
            ]
        }
        CommandSet::Nvm => {
            vec![format!("nvme read /dev/nvme0n{number} -s 0 -c 0 -z 4096")]
        }
    }
}
