//! A server of keys and values over HTTP, with axum:
//!
//! ```text
//! cargo run --release -p esker-tokio --example http_server -- data 127.0.0.1:8080 &
//! curl -X PUT -d analyst localhost:8080/users/ada
//! curl localhost:8080/users/ada
//! curl 'localhost:8080/?prefix=users/'
//! ```

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Router, response::IntoResponse};
use esker::Settings;
use esker_tokio::{AsyncDb, AsyncKeyspace};
use std::collections::HashMap;

/// The most entries of an answer to a scan.
const ENTRIES_MAX: usize = 1_000;

/// An error of the store is the server's.
struct Failed(esker::Error);

impl From<esker::Error> for Failed {
    fn from(error: esker::Error) -> Self {
        Failed(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> axum::response::Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0.to_string()).into_response()
    }
}

/// What the server answers.
pub fn router(keyspace: AsyncKeyspace) -> Router {
    let of_key = get(read).put(write).delete(remove);
    Router::new().route("/", get(scan)).route("/{*key}", of_key).with_state(keyspace)
}

async fn read(
    State(keyspace): State<AsyncKeyspace>,
    Path(key): Path<String>,
) -> Result<axum::response::Response, Failed> {
    Ok(match keyspace.get(key).await? {
        Some(value) => value.to_vec().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

async fn write(
    State(keyspace): State<AsyncKeyspace>,
    Path(key): Path<String>,
    value: Bytes,
) -> Result<StatusCode, Failed> {
    keyspace.put(key, value).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(
    State(keyspace): State<AsyncKeyspace>,
    Path(key): Path<String>,
) -> Result<StatusCode, Failed> {
    keyspace.delete(key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Keys that start with the parameter `prefix`, a line each.
async fn scan(
    State(keyspace): State<AsyncKeyspace>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Result<String, Failed> {
    let prefix = parameters.get("prefix").map_or("", String::as_str);
    let (mut scan, mut answer, mut entries) = (keyspace.prefix(prefix), String::new(), 0);
    while entries < ENTRIES_MAX
        && let Some(entry) = scan.next().await
    {
        answer += &String::from_utf8_lossy(&entry?.0);
        answer.push('\n');
        entries += 1;
    }
    Ok(answer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap_or("data".into());
    let address = arguments.next().unwrap_or("127.0.0.1:8080".into());
    let db = AsyncDb::open(dir, Settings::default()).await?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router(db.default_keyspace()))
        .with_graceful_shutdown(async { _ = tokio::signal::ctrl_c().await })
        .await?;
    db.close().await?;
    Ok(())
}
