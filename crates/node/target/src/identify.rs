//! What a controller says of itself: identify structures and log pages.

use crate::controller::Controller;
use crate::target_state::TargetState;
use crate::{Description, Namespace, Subsystem};
use esker_nvme::command::CommandSet;
use esker_nvme::command::admin::{GetLogPage, Identify};
use esker_nvme::feature;
use esker_nvme::identify::{
    self, ControllerKind, IDENTIFY_BYTES, KvNamespace, NvmNamespace, Structure, structure,
};
use esker_nvme::limits::KEY_BYTES;
use esker_nvme::log_page::{
    CHANGED_NAMESPACES_BYTES, ERROR_ENTRY_BYTES, FirmwareSlot, Health, command_effects,
    feature_effects, management_effects, page, supported_log_pages,
};
use esker_nvme::{DISCOVERY_NQN, Nqn, Status};
use std::net::SocketAddr;
use std::sync::Arc;

/// The namespace id that means all of them.
const ALL_NAMESPACES: u32 = 0xffff_ffff;

/// The structure that was asked for.
pub(crate) fn identify(
    shared: &TargetState,
    controller: &Controller,
    request: &Identify,
) -> Result<Box<Structure>, Status> {
    let mut out = Box::new([0; IDENTIFY_BYTES]);
    let subsystem = controller.subsystem.map(|index| &shared.settings.subsystems[index]);
    match (request.structure, subsystem) {
        (structure::CONTROLLER, _) => identify_controller(controller, subsystem, &mut out),
        (_, Some(subsystem)) => identify_in(subsystem, request, &mut out)?,
        (_, None) => return Err(Status::INVALID_FIELD),
    }
    Ok(out)
}

fn identify_controller(
    controller: &Controller,
    subsystem: Option<&Subsystem>,
    out: &mut Structure,
) {
    let discovery = || Nqn::new(DISCOVERY_NQN).expect("a name that is right");
    let (kind, nqn) = match subsystem {
        Some(subsystem) => (ControllerKind::Io, subsystem.nqn.clone()),
        None => (ControllerKind::Discovery, discovery()),
    };
    let mut identity = identify::Controller::new(kind, controller.id, nqn);
    if let Some(subsystem) = subsystem {
        identity.serial.clone_from(&subsystem.serial);
        identity.namespaces = subsystem.namespaces.len() as u32;
        identity.volatile_write_cache = subsystem.has_volatile_cache();
    }
    identity.encode(out);
}

fn identify_in(
    subsystem: &Subsystem,
    request: &Identify,
    out: &mut Structure,
) -> Result<(), Status> {
    let namespace = || subsystem.namespace(request.namespace).ok_or(Status::INVALID_NAMESPACE);
    let ids = |set: Option<CommandSet>| {
        let is_of = move |namespace: &Arc<dyn Namespace>| {
            set.is_none_or(|set| namespace.description().command_set() == set)
        };
        (1..).zip(&subsystem.namespaces).filter(move |(_, n)| is_of(n)).map(|(id, _)| id)
    };
    match request.structure {
        structure::NAMESPACE => match namespace()?.description() {
            Description::Blocks { bytes, block_bytes_log2 } => {
                let (blocks, guid) = (bytes >> block_bytes_log2, namespace()?.guid());
                NvmNamespace { blocks, block_bytes_log2, guid }.encode(out);
            }
            Description::Keys { .. } => {
                identify::namespace_without_blocks(
                    &namespace()?.guid(),
                    namespace()?.is_ready(),
                    out,
                );
            }
        },
        structure::NAMESPACES => identify::namespaces(ids(None), request.namespace, out),
        structure::SET_NAMESPACES => {
            identify::namespaces(ids(Some(request.set()?)), request.namespace, out);
        }
        structure::DESCRIPTORS => {
            let namespace = namespace()?;
            let set = namespace.description().command_set();
            identify::descriptors(&namespace.guid(), set, out);
        }
        structure::INDEPENDENT_NAMESPACE => {
            identify::independent_namespace(namespace()?.is_ready(), out);
        }
        structure::SET_NAMESPACE => set_namespace(namespace()?.as_ref(), request.set()?, out)?,
        structure::SET_CONTROLLER => match request.set()? {
            CommandSet::Nvm => NvmNamespace::encode_controller(out),
            CommandSet::KeyValue => KvNamespace::encode_controller(out),
        },
        structure::COMMAND_SETS => identify::command_sets(out),
        _ => return Err(Status::INVALID_FIELD),
    }
    Ok(())
}

fn set_namespace(
    namespace: &dyn Namespace,
    set: CommandSet,
    out: &mut Structure,
) -> Result<(), Status> {
    match (namespace.description(), set) {
        (Description::Keys { capacity_bytes, value_bytes_max }, CommandSet::KeyValue) => {
            let namespace = KvNamespace {
                capacity_bytes,
                used_bytes: namespace.used_bytes(),
                key_bytes_max: KEY_BYTES as u16,
                value_bytes_max,
                keys_max: 0,
                guid: namespace.guid(),
                has_long_keys: namespace.has_long_keys(),
            };
            namespace.encode(out);
            Ok(())
        }
        // No protection information, no other formats: all zeros.
        (Description::Blocks { .. }, CommandSet::Nvm) => Ok(()),
        _ => Err(Status::INVALID_FIELD),
    }
}

/// The features of a controller with namespaces, each with whether it is of a namespace.
fn features_of(shared: &TargetState, controller: &Controller) -> Vec<(u8, bool)> {
    let subsystem = controller.subsystem.map(|index| &shared.settings.subsystems[index]);
    let has_cache = subsystem.is_some_and(Subsystem::has_volatile_cache);
    let is_there = |feature: &u8| has_cache || *feature != feature::VOLATILE_WRITE_CACHE;
    let all = feature::ALL.into_iter().filter(is_there);
    all.map(|feature| (feature, feature == feature::ERROR_RECOVERY)).collect()
}

/// The page that was asked for, whole.
pub(crate) fn log_page(
    shared: &TargetState,
    controller: &Controller,
    request: &GetLogPage,
    local: SocketAddr,
) -> Result<Vec<u8>, Status> {
    match (request.page, controller.is_discovery()) {
        (page::SUPPORTED, true) => Ok(supported_log_pages(&page::ALL_OF_DISCOVERY)),
        (page::SUPPORTED, false) => Ok(supported_log_pages(&page::ALL)),
        (page::FEATURE_EFFECTS, false) => Ok(feature_effects(&features_of(shared, controller))),
        (page::MANAGEMENT_EFFECTS, false) => Ok(management_effects()),
        (page::DISCOVERY, true) => Ok(shared.discovery(&controller.host, local).encode()),
        (page::ERRORS, _) => Ok(vec![0; ERROR_ENTRY_BYTES]),
        (page::HEALTH, false) if matches!(request.namespace, 0 | ALL_NAMESPACES) => {
            let subsystem = controller.subsystem.map(|index| &shared.settings.subsystems[index]);
            let health = Health {
                is_unreliable: subsystem.is_some_and(|subsystem| subsystem.failures() > 0),
                integrity_errors: subsystem.map_or(0, Subsystem::faults),
                ..Health::default()
            };
            Ok(health.encode().to_vec())
        }
        (page::FIRMWARE, false) => {
            Ok(FirmwareSlot(env!("CARGO_PKG_VERSION").to_owned()).encode().to_vec())
        }
        (page::CHANGED_NAMESPACES, false) => Ok(vec![0; CHANGED_NAMESPACES_BYTES]),
        (page::COMMAND_EFFECTS, false) => {
            let set = CommandSet::of(request.command_set);
            let set = set.ok_or(Status::COMMAND_SET_NOT_SUPPORTED)?;
            let mut out = Box::new([0; IDENTIFY_BYTES]);
            command_effects(set, &mut out);
            Ok(out.to_vec())
        }
        _ => Err(Status::INVALID_LOG_PAGE),
    }
}
