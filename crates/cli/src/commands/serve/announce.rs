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
    served: &[Served],
) -> Outcome {
    let (ip, port) = (address.ip(), address.port());
    let mut out = stdout();
    writeln!(out, "listening on {address}, subsystem {nqn}")?;
    if let Some(metrics) = metrics {
        writeln!(out, "metrics on http://{metrics}/metrics, health on http://{metrics}/health")?;
    }
    for (number, served) in (1..).zip(served) {
        writeln!(out, "namespace {number}: {}", served.what)?;
    }
    writeln!(out, "From here:")?;
    writeln!(out, "  esker nvme ping --address {address} --nqn {nqn}")?;
    writeln!(out, "With the kernel's initiator, whose first controller is nvme0:")?;
    writeln!(out, "  nvme discover -t tcp -a {ip} -s {port}")?;
    writeln!(out, "  nvme connect -t tcp -a {ip} -s {port} -n {nqn}")?;
    for (number, served) in (1..).zip(served) {
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
                format!("{pass} -o 0x10    # delete"),
            ]
        }
        CommandSet::Nvm => {
            vec![
                format!("nvme read /dev/nvme0n{number} -s 0 -c 0 -z 4096"),
                format!("mkfs.ext4 /dev/nvme0n{number}"),
            ]
        }
    }
}
