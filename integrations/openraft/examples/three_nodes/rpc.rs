//! Messages between nodes over TCP: a length and MessagePack, one connection a message.

use crate::{Config, Raft};
use openraft::BasicNode;
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Serialize, Deserialize)]
enum Request {
    Append(AppendEntriesRequest<Config>),
    Snapshot(InstallSnapshotRequest<Config>),
    Vote(VoteRequest<u64>),
}

async fn send(stream: &mut TcpStream, message: &impl Serialize) -> io::Result<()> {
    let bytes = rmp_serde::to_vec_named(message).map_err(io::Error::other)?;
    stream.write_u32(bytes.len() as u32).await?;
    stream.write_all(&bytes).await
}

async fn receive<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    // The memory grows with what arrives: a wrong length costs the other side as much.
    let length = u64::from(stream.read_u32().await?);
    let mut bytes = Vec::new();
    stream.take(length).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    rmp_serde::from_slice(&bytes).map_err(io::Error::other)
}

/// Answers other nodes until it is aborted.
pub async fn serve(listener: TcpListener, raft: Raft) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            // Too many open files, or a peer that went away: others may still come.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let raft = raft.clone();
        tokio::spawn(async move {
            match receive(&mut stream).await? {
                Request::Append(request) => {
                    send(&mut stream, &raft.append_entries(request).await).await
                }
                Request::Snapshot(request) => {
                    send(&mut stream, &raft.install_snapshot(request).await).await
                }
                Request::Vote(request) => send(&mut stream, &raft.vote(request).await).await,
            }
        });
    }
}

/// Makes a client for each node.
pub struct Network;

pub struct Client {
    id: u64,
    address: String,
}

type Answer<T, E> = Result<T, RPCError<u64, BasicNode, RaftError<u64, E>>>;

impl Client {
    async fn call<T, E>(&self, request: Request) -> Answer<T, E>
    where
        T: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        let exchange = async {
            let mut stream = TcpStream::connect(&self.address).await?;
            send(&mut stream, &request).await?;
            receive::<Result<T, RaftError<u64, E>>>(&mut stream).await
        };
        let answer = exchange.await.map_err(|error: io::Error| NetworkError::new(&error))?;
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(self.id, error)))
    }
}

impl RaftNetworkFactory<Config> for Network {
    type Network = Client;

    async fn new_client(&mut self, id: u64, node: &BasicNode) -> Client {
        Client { id, address: node.addr.clone() }
    }
}

impl RaftNetwork<Config> for Client {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Config>,
        _: RPCOption,
    ) -> Answer<AppendEntriesResponse<u64>, openraft::error::Infallible> {
        self.call(Request::Append(request)).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Config>,
        _: RPCOption,
    ) -> Answer<InstallSnapshotResponse<u64>, InstallSnapshotError> {
        self.call(Request::Snapshot(request)).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        _: RPCOption,
    ) -> Answer<VoteResponse<u64>, openraft::error::Infallible> {
        self.call(Request::Vote(request)).await
    }
}
