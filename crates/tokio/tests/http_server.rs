//! The example of a server answers.

#[expect(dead_code, reason = "the example's main is not called")]
#[path = "../examples/http_server.rs"]
mod http_server;

use esker::Settings;
use esker_tokio::AsyncDb;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The status and the body of the answer to a request.
async fn ask(address: std::net::SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_put_read_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let db = AsyncDb::open(dir.path().join("data"), Settings::default()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = http_server::router(db.default_keyspace());
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    assert_eq!(ask(address, "GET", "/users/ada", "").await.0, 404);
    assert_eq!(ask(address, "PUT", "/users/ada", "analyst").await.0, 204);
    assert_eq!(ask(address, "PUT", "/users/bob", "baker").await.0, 204);
    assert_eq!(ask(address, "GET", "/users/ada", "").await, (200, "analyst".into()));
    assert_eq!(ask(address, "GET", "/?prefix=users/", "").await.1, "users/ada\nusers/bob\n");
    assert_eq!(ask(address, "DELETE", "/users/ada", "").await.0, 204);
    assert_eq!(ask(address, "GET", "/?prefix=users/", "").await.1, "users/bob\n");
    server.abort();
}
