//! Functions that do nothing here: those that are accepted, and those that are refused.
//!
//! A refused function with an `errptr` fails with its reason. One without returns null or zero, and what
//! it would change stays as it is. Arguments are declared by their class only: they are not read.

mod exports;
mod file_lists;
mod ignored;
mod jobs;
mod log_files;
mod placeholders;
mod services;
mod timestamps;
mod traces;

use std::ffi::c_void;

/// A pointer that no function here follows.
pub type P = *mut c_void;

/// Functions that do nothing, for one reason.
pub struct Undone {
    /// Whether they succeed.
    pub is_accepted: bool,
    /// Why they do nothing.
    pub reason: &'static str,
    /// Their names.
    pub functions: &'static [&'static str],
}

/// All of them.
pub const ALL: [&Undone; 9] = [
    &ignored::UNDONE,
    &timestamps::UNDONE,
    &traces::UNDONE,
    &services::UNDONE,
    &jobs::UNDONE,
    &exports::UNDONE,
    &log_files::UNDONE,
    &file_lists::UNDONE,
    &placeholders::UNDONE,
];

/// Declares functions that do nothing, and `UNDONE`, the list of them with the reason.
macro_rules! undone {
    (
        $decision:ident $reason:literal;
        with_errptr { $($try:ident($($try_type:ty),*) $(-> $try_answer:ty)?;)* }
        without_errptr { $($plain:ident($($type:ty),*) $(-> $answer:ty)?;)* }
    ) => {
        $(
            // SAFETY: it is the only function of this name, with the arguments of `rocksdb/c.h`.
            #[unsafe(no_mangle)]
            pub extern "C" fn $try(
                $(_: $try_type,)*
                errptr: $crate::border::ErrorOut,
            ) $(-> $try_answer)? {
                errptr.guard(|| $crate::undone::undone!(@answer $decision $reason))
            }
        )*
        $(
            // SAFETY: it is the only function of this name, with the arguments of `rocksdb/c.h`.
            #[unsafe(no_mangle)]
            pub extern "C" fn $plain($(_: $type),*) $(-> $answer)? {
                $crate::border::Fallback::fallback()
            }
        )*
        pub(super) const UNDONE: $crate::undone::Undone = $crate::undone::Undone {
            is_accepted: $crate::undone::undone!(@is_accepted $decision),
            reason: $reason,
            functions: &[$(stringify!($try),)* $(stringify!($plain),)*],
        };
    };
    (@answer accepted $reason:literal) => { Ok($crate::border::Fallback::fallback()) };
    (@answer refused $reason:literal) => { Err($crate::border::Status::unsupported($reason)) };
    (@is_accepted accepted) => { true };
    (@is_accepted refused) => { false };
}

pub(crate) use undone;
