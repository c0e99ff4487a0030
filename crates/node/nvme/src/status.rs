//! How a command ended (Base 3.3.3.2.1; KV 3.2; fabrics statuses in Base 6.3).

use std::fmt;

/// A status: type in bits 10:8, code in bits 7:0, and whether a retry is useless in bit 14, as they are in
/// the completion's status field one bit further up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u16);

/// "Do not retry".
const DNR: u16 = 1 << 14;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal $text:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($code);)*
        }

        fn text(code: u16) -> Option<&'static str> {
            match code {
                $($code => Some($text),)*
                _ => None,
            }
        }
    };
}

statuses! {
    /// It was done.
    SUCCESS = 0x000 "success";
    /// There is no such command here.
    INVALID_OPCODE = 0x001 "invalid opcode";
    /// A field of the command has a value that is not allowed.
    INVALID_FIELD = 0x002 "invalid field in command";
    /// Another command with this identifier is not finished.
    COMMAND_ID_CONFLICT = 0x003 "command id conflict";
    /// The data did not come over as it should.
    DATA_TRANSFER_ERROR = 0x004 "data transfer error";
    /// The controller failed.
    INTERNAL_ERROR = 0x006 "internal error";
    /// The host asked for this command's end.
    ABORT_REQUESTED = 0x007 "command abort requested";
    /// The queue goes away.
    ABORTED_QUEUE_DELETED = 0x008 "command aborted: queue deleted";
    /// There is no such namespace, or it has another format.
    INVALID_NAMESPACE = 0x00b "invalid namespace or format";
    /// The command comes too early or too late.
    SEQUENCE_ERROR = 0x00c "command sequence error";
    /// The SGL's length and the command's do not go together.
    DATA_SGL_LENGTH_INVALID = 0x00f "data SGL length invalid";
    /// The SGL descriptor's type is none that fits.
    SGL_TYPE_INVALID = 0x011 "SGL descriptor type invalid";
    /// The SGL's offset is not in the capsule.
    SGL_OFFSET_INVALID = 0x016 "SGL offset invalid";
    /// The keep-alive time asked for is not possible.
    KEEP_ALIVE_INVALID = 0x01a "keep alive timeout invalid";
    /// The namespace is not of the command set that was asked for.
    COMMAND_SET_NOT_SUPPORTED = 0x029 "I/O command set not supported";
    /// What was received is damaged: the data digest does not match.
    TRANSPORT_ERROR = 0x022 "transient transport error";
    /// An LBA past the namespace's end.
    LBA_OUT_OF_RANGE = 0x080 "LBA out of range";
    /// No space is left.
    CAPACITY_EXCEEDED = 0x081 "capacity exceeded";
    /// The namespace could not be opened; it stays so until the node is started again.
    NAMESPACE_NOT_READY = 0x082 "namespace not ready";
    /// The value is longer than the namespace allows.
    INVALID_VALUE_SIZE = 0x085 "invalid value size";
    /// The key is empty or too long.
    INVALID_KEY_SIZE = 0x086 "invalid key size";
    /// There is no such key.
    KEY_NOT_FOUND = 0x087 "key does not exist";
    /// The value is there, and can't be read.
    UNRECOVERED_ERROR = 0x088 "unrecovered error";
    /// The key is there, and the store was for new keys only.
    KEY_EXISTS = 0x089 "key exists";
    /// There is no such queue.
    INVALID_QUEUE = 0x101 "invalid queue identifier";
    /// The queue is empty, or longer than the controller allows.
    INVALID_QUEUE_SIZE = 0x102 "invalid queue size";
    /// More event requests than the controller holds.
    EVENT_LIMIT_EXCEEDED = 0x105 "asynchronous event request limit exceeded";
    /// There is no such log page.
    INVALID_LOG_PAGE = 0x109 "invalid log page";
    /// Nothing that is set is kept.
    FEATURE_NOT_SAVEABLE = 0x10d "feature identifier not saveable";
    /// The feature has one value only.
    FEATURE_NOT_CHANGEABLE = 0x10e "feature not changeable";
    /// A Connect in a format that is not known.
    CONNECT_FORMAT = 0x180 "connect: incompatible format";
    /// The controller has no place for one more.
    CONNECT_BUSY = 0x181 "connect: controller busy";
    /// A Connect with parameters that are not allowed.
    CONNECT_INVALID = 0x182 "connect: invalid parameters";
    /// The host may not use this subsystem.
    CONNECT_HOST = 0x184 "connect: invalid host";
    /// Commands come after authentication.
    AUTH_REQUIRED = 0x191 "authentication required";
    /// What was to be written could not be.
    WRITE_FAULT = 0x280 "write fault";
    /// What was to be read could not be.
    READ_ERROR = 0x281 "unrecovered read error";
    /// Our own, of namespaces of long keys: the value that is there is another key's.
    DIGEST_TAKEN = 0x7c0 "another key has this digest";
}

impl Status {
    /// From the completion's status field; the phase bit is ignored.
    pub const fn from_field(field: u16) -> Self {
        Status((field >> 1) & 0x47ff)
    }

    /// The completion's status field. A failure says "do not retry" unless it is one of the few that may pass:
    /// transport errors, a busy controller, aborts.
    pub const fn to_field(self) -> u16 {
        let code = self.0 & 0x7ff;
        let may_pass = matches!(code, 0x000 | 0x007 | 0x008 | 0x022 | 0x181);
        let code = if may_pass { code } else { code | DNR };
        code << 1
    }

    /// The type and code: what to compare and to show. 3 and 8 bits.
    pub const fn code(self) -> u16 {
        self.0 & 0x7ff
    }

    /// Whether the command was done.
    pub const fn is_success(self) -> bool {
        self.code() == 0
    }

    /// Whether the controller says that a retry is useless.
    pub const fn do_not_retry(self) -> bool {
        self.0 & DNR != 0
    }

    /// Whether this is `other`, whatever either says about retries.
    pub const fn is(self, other: Status) -> bool {
        self.code() == other.code()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = text(self.code()).unwrap_or("a status of no name here");
        write!(f, "{text} (type {:x}h, code {:02x}h)", self.code() >> 8, self.code() & 0xff)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_has_the_code_one_bit_up_and_dnr_on_top() {
        assert_eq!(Status::SUCCESS.to_field(), 0);
        assert_eq!(Status::KEY_NOT_FOUND.to_field(), 0x87 << 1 | 1 << 15);
        assert_eq!(Status::CONNECT_INVALID.to_field(), 0x182 << 1 | 1 << 15);
        assert_eq!(Status::TRANSPORT_ERROR.to_field(), 0x22 << 1, "worth a retry");
    }

    #[test]
    fn a_status_comes_back_from_its_field() {
        let status = Status::from_field(Status::KEY_EXISTS.to_field() | 1);
        assert!(status.is(Status::KEY_EXISTS) && status.do_not_retry() && !status.is_success());
        assert_eq!(status.to_string(), "key exists (type 0h, code 89h)");
    }
}
