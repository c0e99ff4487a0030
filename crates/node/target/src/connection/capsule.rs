//! Data in the capsule of a command.

use esker_uring::Slice;

/// The data in a command's capsule.
pub(super) struct CommandCapsule<'a> {
    pub(super) data: CapsuleData<'a>,
    pub(super) intact: bool,
}

/// See [`CommandCapsule`].
pub(super) enum CapsuleData<'a> {
    /// To be copied.
    Shown(&'a [u8]),
    /// With the buffer that it was received into.
    Given(Slice),
}

impl CapsuleData<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            CapsuleData::Shown(bytes) => bytes,
            CapsuleData::Given(slice) => slice,
        }
    }
}
