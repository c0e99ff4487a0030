//! The state of callbacks, which a C program gives to this library.

use std::ffi::c_void;

/// Frees the state of callbacks.
pub type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;

/// The first argument of callbacks. The destructor gets it when no callback will be called any more.
pub struct State {
    state: *mut c_void,
    destructor: Destructor,
}

// SAFETY: RocksDB calls callbacks from any thread, so `c.h` demands that their state allows that.
unsafe impl Send for State {}
// SAFETY: as above: several threads may call them at once.
unsafe impl Sync for State {}

impl State {
    /// Takes the state over.
    pub fn new(state: *mut c_void, destructor: Destructor) -> Self {
        State { state, destructor }
    }

    /// The first argument of each callback.
    pub fn get(&self) -> *mut c_void {
        self.state
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the C program gave both for this call, which is the only one.
            unsafe { destructor(self.state) };
        }
    }
}

/// The start of bytes as a callback takes it.
pub fn start(bytes: &[u8]) -> *const std::ffi::c_char {
    bytes.as_ptr().cast()
}
