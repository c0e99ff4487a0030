//! Calls from Java: arguments, results, exceptions.

use esker::KeyRange;
use jni::JNIEnv;
use jni::objects::{JByteArray, JObjectArray, JString};
use jni::sys::{jbyteArray, jstring};
use std::any::Any;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Defines native methods of `esker.Native`.
macro_rules! native {
    ($($name:ident = $java:ident($env:ident $(, $argument:ident: $type:ty)*) -> $result:ty $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, reason = "methods of Java have no structures")]
            pub extern "system" fn $java<'a>(
                mut env: jni::JNIEnv<'a>,
                _class: jni::objects::JClass<'a>,
                $($argument: $type,)*
            ) -> $result {
                #[allow(clippy::too_many_arguments, reason = "methods of Java have no structures")]
                fn $name<'a>(
                    $env: &mut jni::JNIEnv<'a>,
                    $($argument: $type,)*
                ) -> Result<$result, $crate::border::Failure> $body
                $crate::border::run(&mut env, |env| $name(env, $($argument),*))
            }
        )*
    };
}
pub(crate) use native;

/// The class of an exception. `esker.Calls` of Java 22 knows the numbers.
#[derive(Clone, Copy)]
pub enum Kind {
    Esker = 0,
    Closed = 1,
    Conflict = 2,
    Argument = 3,
    Null = 4,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Kind::Esker => "esker/EskerException",
            Kind::Closed => "esker/ClosedException",
            Kind::Conflict => "esker/ConflictException",
            Kind::Argument => "java/lang/IllegalArgumentException",
            Kind::Null => "java/lang/NullPointerException",
        }
    }
}

/// An exception.
pub struct Failure {
    kind: Kind,
    text: String,
}

impl Failure {
    pub fn closed(kind: &str) -> Self {
        Failure { kind: Kind::Closed, text: format!("{kind} is closed") }
    }

    pub fn ended() -> Self {
        Failure { kind: Kind::Esker, text: "the transaction has ended: begin another".to_owned() }
    }

    pub fn invalid(text: impl Into<String>) -> Self {
        Failure { kind: Kind::Argument, text: text.into() }
    }

    pub fn into_parts(self) -> (Kind, String) {
        (self.kind, self.text)
    }

    fn panicked(panic: Box<dyn Any + Send>) -> Self {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(|text| &text[..]));
        let said = said.unwrap_or("no message");
        let text = format!("the library has a bug: {said}; close the database and open it again");
        Failure { kind: Kind::Esker, text }
    }
}

impl From<esker::Error> for Failure {
    fn from(error: esker::Error) -> Self {
        let kind = match &error {
            esker::Error::Closed => Kind::Closed,
            error if error.is_transient() => Kind::Conflict,
            _ => Kind::Esker,
        };
        Failure { kind, text: error.to_string() }
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Self {
        let kind = match error {
            jni::errors::Error::NullPtr(_) => Kind::Null,
            _ => Kind::Esker,
        };
        Failure { kind, text: error.to_string() }
    }
}

/// What a method returns besides an exception.
pub trait Nothing {
    const NOTHING: Self;
}

impl Nothing for () {
    const NOTHING: () = ();
}
impl Nothing for u8 {
    const NOTHING: u8 = 0;
}
impl Nothing for i64 {
    const NOTHING: i64 = 0;
}
impl<T> Nothing for *mut T {
    const NOTHING: *mut T = std::ptr::null_mut();
}

/// Runs `body`, and makes a panic a failure.
pub fn guarded<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let result = catch_unwind(AssertUnwindSafe(body));
    result.unwrap_or_else(|panic| Err(Failure::panicked(panic)))
}

/// Runs `body`, and throws its failure.
pub fn run<'a, T: Nothing>(
    env: &mut JNIEnv<'a>,
    body: impl FnOnce(&mut JNIEnv<'a>) -> Result<T, Failure>,
) -> T {
    match guarded(|| body(env)) {
        Ok(value) => value,
        Err(failure) => {
            // An exception that Java threw meanwhile, such as one of memory, comes first.
            if !env.exception_check().unwrap_or(true) {
                let _ = env.throw_new(failure.kind.class(), failure.text);
            }
            T::NOTHING
        }
    }
}

pub fn bytes(env: &JNIEnv<'_>, array: &JByteArray<'_>) -> Result<Vec<u8>, Failure> {
    if array.is_null() {
        return Err(jni::errors::Error::NullPtr("key or value").into());
    }
    Ok(env.convert_byte_array(array)?)
}

/// `null` where there is no value.
pub fn array(env: &JNIEnv<'_>, value: Option<impl AsRef<[u8]>>) -> Result<jbyteArray, Failure> {
    match value {
        Some(value) => Ok(env.byte_array_from_slice(value.as_ref())?.into_raw()),
        None => Ok(std::ptr::null_mut()),
    }
}

pub fn text(env: &mut JNIEnv<'_>, text: &JString<'_>) -> Result<String, Failure> {
    Ok(env.get_string(text)?.into())
}

pub fn string(env: &JNIEnv<'_>, text: String) -> Result<jstring, Failure> {
    Ok(env.new_string(text)?.into_raw())
}

/// Names and values in turn.
pub fn settings(
    env: &mut JNIEnv<'_>,
    array: &JObjectArray<'_>,
    mut set: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), Failure> {
    let mut name = None;
    for at in 0..env.get_array_length(array)? {
        let element = JString::from(env.get_object_array_element(array, at)?);
        let text = text(env, &element)?;
        env.delete_local_ref(element)?;
        match name.take() {
            None => name = Some(text),
            Some(name) => set(&name, &text).map_err(Failure::invalid)?,
        }
    }
    Ok(())
}

/// A range of keys; `null` is an open end.
pub fn range(
    env: &JNIEnv<'_>,
    start: &JByteArray<'_>,
    start_inclusive: u8,
    end: &JByteArray<'_>,
    end_inclusive: u8,
) -> Result<KeyRange, Failure> {
    let bound = |array: &JByteArray<'_>, inclusive| match array.is_null() {
        true => Ok(Bound::Unbounded),
        false if inclusive == 0 => Ok(Bound::Excluded(bytes(env, array)?)),
        false => Ok::<_, Failure>(Bound::Included(bytes(env, array)?)),
    };
    Ok(KeyRange::from((bound(start, start_inclusive)?, bound(end, end_inclusive)?)))
}
