//! What a frame is, by the side that sent it.

use super::header::PduKind;
use super::scanner::{DataDigest, Frame};
use super::{
    DataHeader, FatalError, InitializeRequest, InitializeResponse, ReadyToTransfer, Termination,
    capsule, data,
};
use crate::command::{Cqe, Sqe};

/// Data that came with a PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// What their digest says. Damaged data fails its command, not the connection (TCP 3.3.2.2).
    pub digest: DataDigest,
}

impl Payload<'_> {
    /// Whether the bytes are those that were sent, as far as a digest shows.
    pub fn is_intact(&self) -> bool {
        self.digest != DataDigest::Mismatch
    }
}

/// A PDU from a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostPdu<'a> {
    /// ICReq.
    Initialize(InitializeRequest),
    /// CapsuleCmd, and the data in it.
    Command(Sqe, Payload<'a>),
    /// H2CData.
    Data {
        /// Where the data belongs.
        header: DataHeader,
        /// The data.
        payload: Payload<'a>,
        /// Whether it ends what the R2T asked for.
        last: bool,
    },
    /// H2CTermReq.
    Terminate(Termination),
}

/// A PDU from a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerPdu<'a> {
    /// ICResp.
    Initialize(InitializeResponse),
    /// CapsuleResp.
    Response(Cqe),
    /// C2HData.
    Data {
        /// Where the data belongs.
        header: DataHeader,
        /// The data.
        payload: Payload<'a>,
        /// Whether it is the command's last data.
        last: bool,
        /// Whether no completion follows: the command succeeded.
        success: bool,
    },
    /// R2T.
    ReadyToTransfer(ReadyToTransfer),
    /// C2HTermReq.
    Terminate(Termination),
}

/// The data header of a frame, whose length must be that of the data.
fn data_header(frame: &Frame<'_>) -> Result<DataHeader, FatalError> {
    let header = DataHeader::parse(frame.bytes);
    if header.bytes as usize != frame.header.data_bytes() || header.bytes == 0 {
        return Err(FatalError::field(data::field::BYTES, "a data length other than the PDU's"));
    }
    Ok(header)
}

fn payload<'a>(frame: &Frame<'a>) -> Payload<'a> {
    let bytes = &frame.bytes[frame.header.data_start..frame.header.data_end];
    Payload { bytes, digest: frame.digest }
}

const WRONG_SIDE: FatalError = FatalError::field(0, "a PDU of a type that is not expected");

impl<'a> HostPdu<'a> {
    /// Says what `frame` is.
    pub fn parse(frame: &Frame<'a>) -> Result<Self, FatalError> {
        Ok(match frame.header.kind {
            PduKind::InitializeRequest => {
                HostPdu::Initialize(InitializeRequest::parse(frame.bytes)?)
            }
            PduKind::Command => HostPdu::Command(capsule::command_of(frame.bytes), payload(frame)),
            PduKind::HostData => HostPdu::Data {
                header: data_header(frame)?,
                payload: payload(frame),
                last: frame.header.is_last(),
            },
            PduKind::HostTermination => HostPdu::Terminate(Termination::parse(frame.bytes)),
            _ => return Err(WRONG_SIDE),
        })
    }
}

impl<'a> ControllerPdu<'a> {
    /// Says what `frame` is.
    pub fn parse(frame: &Frame<'a>) -> Result<Self, FatalError> {
        Ok(match frame.header.kind {
            PduKind::InitializeResponse => {
                ControllerPdu::Initialize(InitializeResponse::parse(frame.bytes)?)
            }
            PduKind::Response => ControllerPdu::Response(capsule::response_of(frame.bytes)),
            PduKind::ControllerData => ControllerPdu::Data {
                header: data_header(frame)?,
                payload: payload(frame),
                last: frame.header.is_last(),
                success: frame.header.is_success(),
            },
            PduKind::ReadyToTransfer => {
                ControllerPdu::ReadyToTransfer(ReadyToTransfer::parse(frame.bytes))
            }
            PduKind::ControllerTermination => {
                ControllerPdu::Terminate(Termination::parse(frame.bytes))
            }
            _ => return Err(WRONG_SIDE),
        })
    }
}
