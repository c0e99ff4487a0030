//! Identify structures: what a controller and its namespaces are (Base 5.17). Each is 4096 bytes.

mod controller;
mod kv_namespace;
mod lists;
mod nvm_namespace;

pub use controller::{Controller, ControllerKind};
pub use kv_namespace::KvNamespace;
pub use lists::{
    command_set_of, command_sets, descriptors, independent_namespace, is_ready, listed, namespaces,
    uuid, uuid_text,
};
pub use nvm_namespace::{NvmNamespace, namespace_without_blocks};

/// The length of every structure.
pub const IDENTIFY_BYTES: usize = 4096;

/// NMIC: the namespace may be attached to two or more controllers at a time.
const SHARED: u8 = 1;

/// A structure, to be filled.
pub type Structure = [u8; IDENTIFY_BYTES];

/// Which structure: CNS.
pub mod structure {
    /// A namespace of the NVM command set.
    pub const NAMESPACE: u8 = 0x00;
    /// The controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Ids of active namespaces above the one named, of all command sets.
    pub const NAMESPACES: u8 = 0x02;
    /// Identifiers of a namespace.
    pub const DESCRIPTORS: u8 = 0x03;
    /// A namespace, as its command set sees it.
    pub const SET_NAMESPACE: u8 = 0x05;
    /// The controller, as a command set sees it.
    pub const SET_CONTROLLER: u8 = 0x06;
    /// Ids of active namespaces of one command set.
    pub const SET_NAMESPACES: u8 = 0x07;
    /// A namespace, whatever its command set.
    pub const INDEPENDENT_NAMESPACE: u8 = 0x08;
    /// Combinations of command sets.
    pub const COMMAND_SETS: u8 = 0x1c;
}
