// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server for a process that has none: a thread of its own, so that no request
//! holds up the application.
//!
//! Invariant: clients that are silent, however many, hold up nobody: each has
//! some seconds for its request, and the oldest connection makes room for the
//! newest.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;

/// A client has so long for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Connections at once.
pub const MAX_CONNECTIONS: usize = 64;

/// A port that is taken, on which nothing is served yet.
///
/// ```no_run
/// use metrale_http::{Pages, Server};
///
/// let server = Server::bind(([127, 0, 0, 1], 9464).into())?;
/// println!("http://{}/", server.address()?);
/// server.start(Pages::new([metrale_telemetry::global()]).router())?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Server(TcpListener);

impl Server {
    /// Takes a port that only this machine reaches; port 0 is a free one.
    ///
    /// # Errors
    /// Where the address is not a loopback one, or is in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{address} is not a loopback address: others would reach it; `Server::bind_to_all` is for that"
                ),
            ));
        }
        Self::bind_to_all(address)
    }

    /// As [`bind`](Self::bind), on any address: whoever reaches it reads all that
    /// is measured, the names of kernels included.
    ///
    /// # Errors
    /// Where the address is in use, or may not be used.
    pub fn bind_to_all(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(Self)
    }

    /// The address with the port that was taken.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves `router` from now on, until the process ends.
    ///
    /// # Errors
    /// Where there can be no thread for it.
    pub fn start(self, router: Router) -> io::Result<()> {
        self.0.set_nonblocking(true)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        std::thread::Builder::new().name("metrale-http".into()).spawn(move || {
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(self.0)?;
                answer(listener, router).await;
                io::Result::Ok(())
            })
        })?;
        Ok(())
    }
}

/// Answers for ever.
async fn answer(mut listener: tokio::net::TcpListener, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    // The oldest first.
    let mut open: VecDeque<tokio::task::AbortHandle> = VecDeque::new();
    loop {
        // axum's: it goes on after an error.
        let (stream, _) = Listener::accept(&mut listener).await;
        open.retain(|connection| !connection.is_finished());
        if open.len() >= MAX_CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service);
        open.push_back(tokio::spawn(connection).abort_handle());
    }
}
