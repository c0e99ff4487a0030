//! The border to C: what arguments are, how errors and panics leave, and what memory C frees.
//!
//! All other modules are safe Rust: they declare functions with [`c_api`], whose arguments have the
//! types of `pointers`. A value of such a type comes from a C program only. Its promise is that of
//! `rocksdb/c.h`: a pointer is null or valid for the call, and a length belongs to it. So the methods
//! that follow a pointer are safe to call, and contain what is unsafe.

pub mod callback;
pub mod memory;
pub mod pointers;
pub mod status;

pub use pointers::{Array, Bytes, ErrorOut, Handle, Out, Text, caught, guard};
pub use status::{Code, Status};

/// A result whose error goes into an `errptr`.
pub type Result<T, E = Status> = std::result::Result<T, E>;

/// What is returned instead of an answer: after an error, and after a panic.
pub trait Fallback {
    /// Null, or zero.
    fn fallback() -> Self;
}

macro_rules! fallback {
    ($($type:ty = $value:expr),* $(,)?) => {$(
        impl Fallback for $type {
            fn fallback() -> Self {
                $value
            }
        }
    )*};
}

fallback!(() = (), bool = false, u8 = 0, i32 = 0, u32 = 0, i64 = 0, u64 = 0, usize = 0, f64 = 0.0);

impl<T> Fallback for *mut T {
    fn fallback() -> Self {
        std::ptr::null_mut()
    }
}

impl<T> Fallback for *const T {
    fn fallback() -> Self {
        std::ptr::null()
    }
}

impl<T> Fallback for Handle<T> {
    fn fallback() -> Self {
        Handle::null()
    }
}

/// Declares functions of RocksDB's C interface, and the table of their names, `FUNCTIONS`.
///
/// * `fn` is a function without an `errptr`. After a panic it returns null or zero.
/// * `try fn` has an `errptr` as its last argument, which the macro adds. The body is a [`Result`].
/// * `fn NAME | OTHER(…)` declares two functions that do the same.
macro_rules! c_api {
    ($($tokens:tt)*) => {
        $crate::border::declare! { [] $($tokens)* }
    };
}

/// One step of [`c_api`]: declares the first function, and notes its name.
macro_rules! declare {
    ([$($known:ident)*]) => {
        /// The functions of this module.
        pub(crate) const FUNCTIONS: &[&str] = &[$(stringify!($known)),*];
    };
    (
        [$($known:ident)*]
        $(#[$meta:meta])*
        fn $name:ident | $other:ident $(| $more:ident)* ($($arguments:tt)*) $(-> $answer:ty)? $body:block
        $($rest:tt)*
    ) => {
        $crate::border::declare! {
            [$($known)*]
            $(#[$meta])*
            fn $name ($($arguments)*) $(-> $answer)? $body
            $(#[$meta])*
            fn $other $(| $more)* ($($arguments)*) $(-> $answer)? $body
            $($rest)*
        }
    };
    (
        [$($known:ident)*]
        $(#[$meta:meta])*
        try fn $name:ident | $other:ident $(| $more:ident)* ($($arguments:tt)*) $(-> $answer:ty)? $body:block
        $($rest:tt)*
    ) => {
        $crate::border::declare! {
            [$($known)*]
            $(#[$meta])*
            try fn $name ($($arguments)*) $(-> $answer)? $body
            $(#[$meta])*
            try fn $other $(| $more)* ($($arguments)*) $(-> $answer)? $body
            $($rest)*
        }
    };
    (
        [$($known:ident)*]
        $(#[$meta:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $answer:ty)? $body:block
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        // SAFETY: it is the only function of this name, and has the signature of `rocksdb/c.h`.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) $(-> $answer)? {
            $crate::border::guard(move || $body)
        }
        $crate::border::declare! { [$($known)* $name] $($rest)* }
    };
    (
        [$($known:ident)*]
        $(#[$meta:meta])*
        try fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $answer:ty)? $body:block
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        // SAFETY: it is the only function of this name, and has the signature of `rocksdb/c.h`.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type,)* errptr: $crate::border::ErrorOut) $(-> $answer)? {
            errptr.guard(move || $body)
        }
        $crate::border::declare! { [$($known)* $name] $($rest)* }
    };
}

pub(crate) use {c_api, declare};
