//! An admin queue, and the I/O queues of its controller.

use crate::auth::authenticate_if_asked;
use crate::deadline::Deadline;
use crate::keep_alive::KeepAlive;
use crate::queue_pair::QueuePair;
use crate::sync_connection::{SyncConnection, unexpected};
use crate::{RemoteError, Settings};
use esker_base::{Background, Entropy};
use esker_nvme::command::CommandSet;
use esker_nvme::command::admin::{AdminCommand, GetLogPage, Identify};
use esker_nvme::command::fabrics::{ANY_CONTROLLER, Connect, FabricsCommand};
use esker_nvme::feature::{self, QueueCounts};
use esker_nvme::identify::{self, IDENTIFY_BYTES, KvNamespace, NvmNamespace, Structure, structure};
use esker_nvme::property::{self, Configuration};
use esker_nvme::{Cqe, Nqn, Sqe, Status};
use std::sync::Arc;
use std::time::Duration;

/// Entries of an admin queue: there is one command at a time.
const ADMIN_ENTRIES: u16 = 32;

/// An admin queue of a controller that runs.
pub(crate) struct Admin {
    pub(crate) link: SyncConnection,
    pub(crate) controller: u16,
    queue_entries: u32,
}

impl Admin {
    /// Connects, authenticates if it is asked to, and starts the controller.
    pub(crate) fn connect(
        settings: &Settings,
        subsystem: &Nqn,
        keep_alive: Duration,
        deadline: &Deadline,
        entropy: &dyn Entropy,
    ) -> Result<Self, RemoteError> {
        let mut link = SyncConnection::open(settings, subsystem, deadline)?;
        let connect = Connect {
            queue: 0,
            entries_less_one: ADMIN_ENTRIES - 1,
            no_flow_control: true,
            keep_alive_ms: keep_alive.as_millis().try_into().unwrap_or(u32::MAX),
        };
        let word = link.connect(settings, subsystem, ANY_CONTROLLER, connect)?;
        authenticate_if_asked(word, &mut link, settings, subsystem, 0, entropy)?;
        let capabilities = get(&mut link, property::CAPABILITIES, true)?;
        let start = FabricsCommand::PropertySet {
            offset: property::CONFIGURATION,
            value: Configuration::START.0.into(),
        };
        link.call("start the controller", start.encode(), &[], 0)?;
        if get(&mut link, property::STATUS, false)? as u32 & property::READY == 0 {
            return Err(unexpected("its controller does not become ready"));
        }
        let queue_entries = property::queue_entries(capabilities);
        Ok(Admin { link, controller: word as u16, queue_entries })
    }

    fn identify(&mut self, request: Identify) -> Result<Box<Structure>, RemoteError> {
        let sqe = AdminCommand::Identify(request).encode();
        let (_, data) = self.link.call("identify itself", sqe, &[], IDENTIFY_BYTES as u32)?;
        let structure = data.first_chunk::<IDENTIFY_BYTES>();
        structure.map(|s| Box::new(*s)).ok_or(unexpected("a structure that is truncated"))
    }
}

fn get(link: &mut SyncConnection, offset: u32, wide: bool) -> Result<u64, RemoteError> {
    let sqe = FabricsCommand::PropertyGet { offset, wide }.encode();
    Ok(link.call("report a property", sqe, &[], 0)?.0.double_word())
}

/// The first `bytes` of a log page.
pub(crate) fn read_log(
    link: &mut SyncConnection,
    page: u8,
    bytes: u32,
) -> Result<Vec<u8>, RemoteError> {
    let request = GetLogPage {
        page,
        namespace: 0,
        command_set: 0,
        offset: 0,
        bytes: bytes.into(),
        retain_event: false,
    };
    Ok(link.call("give a log page", AdminCommand::GetLogPage(request).encode(), &[], bytes)?.1)
}

/// All queues of one controller.
pub(crate) struct Association {
    /// Keeps the controller: it goes when the admin queue's connection does.
    _keep_alive: KeepAlive,
    pub(crate) queues: Arc<[QueuePair]>,
    pub(crate) namespace: Namespace,
}

/// The namespace that an association is for.
#[derive(Clone, Copy)]
pub(crate) enum Namespace {
    /// With whether what was acknowledged is safe only after a flush.
    Keys(KvNamespace, bool),
    /// The same.
    Blocks(NvmNamespace, bool),
}

impl Namespace {
    pub(crate) fn value_bytes_max(&self) -> usize {
        match self {
            Namespace::Keys(keys, _) => keys.value_bytes_max as usize,
            Namespace::Blocks(..) => 0,
        }
    }

    /// Whether what was acknowledged is safe only after a flush.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        let (Namespace::Keys(_, is_cached) | Namespace::Blocks(_, is_cached)) = self;
        *is_cached
    }

    /// Whether it is this one that another association found, and as it was.
    pub(crate) fn is_same(&self, other: &Namespace) -> bool {
        match (self, other) {
            (Namespace::Keys(one, _), Namespace::Keys(other, _)) => {
                (one.guid, one.has_long_keys) == (other.guid, other.has_long_keys)
            }
            (Namespace::Blocks(one, _), Namespace::Blocks(other, _)) => one == other,
            _ => false,
        }
    }
}

impl Association {
    /// Waits until the node has done with all connections of an association that failed, or until a time. From then on it knows which
    /// changes it still has, and has the next association wait for them; what it has not received is thrown away.
    pub(crate) fn part(&self, until: Duration) {
        self.queues.iter().for_each(|queue| queue.lose("its association was dropped"));
        self.queues.iter().for_each(|queue| queue.part(until));
    }

    /// Connects to a namespace that is used by `set`.
    pub(crate) fn connect(
        settings: &Settings,
        set: CommandSet,
        deadline: &Deadline,
        entropy: &dyn Entropy,
        background: &dyn Background,
    ) -> Result<Self, RemoteError> {
        let keep_alive = settings.keep_alive;
        let subsystem = &settings.subsystem;
        let mut admin = Admin::connect(settings, subsystem, keep_alive, deadline, entropy)?;
        let controller = admin.identify(Identify {
            structure: structure::CONTROLLER,
            namespace: 0,
            command_set: 0,
        })?;
        let controller = identify::Controller::parse(&controller);
        let controller = controller.map_err(|error| unexpected(&error.to_string()))?;
        let id = settings.namespace;
        check_set(&mut admin, id, set)?;
        check_ready(&mut admin, id)?;
        let namespace = match set {
            CommandSet::KeyValue => key_namespace(&mut admin, id, controller.volatile_write_cache)?,
            CommandSet::Nvm => block_namespace(&mut admin, id, controller.volatile_write_cache)?,
        };
        let queues = queue_count(&mut admin.link, settings.queues)?;
        let depth = settings.depth.clamp(1, 127).min((admin.queue_entries - 1) as u16);
        let queue = |number| {
            let mut link = admin.link.open_another(settings, deadline)?;
            link.capsule_bytes = controller.in_capsule_bytes as usize;
            let connect = Connect {
                queue: number,
                entries_less_one: depth,
                no_flow_control: true,
                keep_alive_ms: 0,
            };
            let word = link.connect(settings, subsystem, admin.controller, connect)?;
            authenticate_if_asked(word, &mut link, settings, subsystem, number, entropy)?;
            Ok::<_, RemoteError>(QueuePair::new(link, depth))
        };
        let queues: Arc<[QueuePair]> = (1..=queues).map(queue).collect::<Result<_, _>>()?;
        let keep_alive = KeepAlive::start(admin.link, queues.clone(), settings, background)?;
        Ok(Association { _keep_alive: keep_alive, queues, namespace })
    }
}

/// Fails if `namespace` is not used by `set`.
fn check_set(admin: &mut Admin, namespace: u32, set: CommandSet) -> Result<(), RemoteError> {
    let request = Identify { structure: structure::DESCRIPTORS, namespace, command_set: set as u8 };
    let names = admin.identify(request)?;
    if identify::command_set_of(&names) == Some(set) {
        return Ok(());
    }
    let action = match set {
        CommandSet::KeyValue => "serve keys from this namespace",
        CommandSet::Nvm => "serve blocks from this namespace",
    };
    Err(RemoteError::Refused { action, status: Status::COMMAND_SET_NOT_SUPPORTED })
}

/// Fails if the node says that `namespace` is not ready. Nodes that know no such structure say
/// nothing.
fn check_ready(admin: &mut Admin, namespace: u32) -> Result<(), RemoteError> {
    let structure = structure::INDEPENDENT_NAMESPACE;
    match admin.identify(Identify { structure, namespace, command_set: 0 }) {
        Ok(common) if !identify::is_ready(&common) => Err(RemoteError::Refused {
            action: "open this namespace",
            status: Status::NAMESPACE_NOT_READY,
        }),
        Ok(_) | Err(RemoteError::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn key_namespace(
    admin: &mut Admin,
    namespace: u32,
    is_cached: bool,
) -> Result<Namespace, RemoteError> {
    let command_set = CommandSet::KeyValue as u8;
    let request = Identify { structure: structure::SET_NAMESPACE, namespace, command_set };
    Ok(Namespace::Keys(KvNamespace::parse(&*admin.identify(request)?), is_cached))
}

fn block_namespace(
    admin: &mut Admin,
    namespace: u32,
    is_cached: bool,
) -> Result<Namespace, RemoteError> {
    let request = Identify { structure: structure::NAMESPACE, namespace, command_set: 0 };
    let blocks = NvmNamespace::parse(&*admin.identify(request)?);
    match blocks.block_bytes_log2 {
        9..=12 => Ok(Namespace::Blocks(blocks, is_cached)),
        _ => Err(unexpected("blocks of a size that this host does not know")),
    }
}

/// The number of I/O queues that the controller grants, up to `wanted`.
fn queue_count(link: &mut SyncConnection, wanted: u16) -> Result<u16, RemoteError> {
    let wanted = wanted.max(1);
    let value = QueueCounts { submission: wanted, completion: wanted }.word();
    let set = AdminCommand::SetFeatures { feature: feature::NUMBER_OF_QUEUES, save: false, value };
    let sqe: Sqe = set.encode();
    let (cqe, _): (Cqe, _) = link.call("give I/O queues", sqe, &[], 0)?;
    let given = QueueCounts::of(cqe.word()).ok_or(unexpected("a count of queues that is none"))?;
    Ok(wanted.min(given.submission).min(given.completion))
}
