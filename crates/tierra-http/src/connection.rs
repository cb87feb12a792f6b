//! One client's connection: TLS if there is any, and HTTP/1.1 by hyper, within limits.
//!
//! A client that goes away drops what its request was waiting for, and with it the session and its statement. hyper looks for the
//! end of the connection while an answer is made and while it is sent.

use std::error::Error;
use std::io::{Read, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::peer::Peer;

/// How long a client may take for TLS, and how long for the head of a request. A connection without requests ends after as long.
const HEAD: Duration = Duration::from_secs(30);
/// The most bytes of a head, and of what is read ahead of a body.
const HEAD_MOST_BYTES: usize = 64 << 10;
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

type Ended = Result<(), Box<dyn Error + Send + Sync>>;

/// Serves a client until one of the two ends the connection.
pub(crate) async fn serve(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    routes: Router,
    mut stopping: watch::Receiver<bool>,
) -> Ended {
    let Some(tls) = tls else {
        return talk(socket, routes, stopping).await;
    };
    let secured = async {
        let mut first = [0];
        if timeout(HEAD, socket.peek(&mut first)).await?? == 1 && first[0] != TLS_HANDSHAKE {
            say(socket, "400 Bad Request", "use https");
            return Err("a client without TLS".into());
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(timeout(HEAD, tls.accept(socket)).await??)
    };
    let secure = tokio::select! {
        secure = secured => secure?,
        _ = stopping.wait_for(|stop| *stop) => return Ok(()),
    };
    talk(secure, routes, stopping).await
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    routes: Router,
    mut stopping: watch::Receiver<bool>,
) -> Ended {
    let routes = routes.layer(Extension(Arc::<Peer>::default()));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_MOST_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut served = pin!(served);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            ended = served.as_mut() => return ended.map_err(Into::into),
            _ = stopping.wait_for(|stop| *stop), if !is_stopping => {
                is_stopping = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Turns a client away for whom there is no room. Inside TLS it could only be told after a handshake.
pub(crate) fn refuse(socket: TcpStream, is_secure: bool) {
    if !is_secure {
        say(socket, "503 Service Unavailable", "too many connections");
    }
}

/// An answer without a request that was read. What does not fit into the socket at once is not sent.
fn say(socket: TcpStream, status: &str, text: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}\n",
        text.len() + 1
    );
    // The standard library's socket asks the system now, and tokio's only once it has heard that there is room.
    let told = socket.into_std().and_then(|mut socket| {
        socket.write_all(answer.as_bytes())?;
        // A socket that is closed with unread bytes may take the answer back.
        socket.read(&mut [0; 4096])
    });
    if let Err(error) = told {
        tracing::debug!(%error, "a client was turned away");
    }
}
