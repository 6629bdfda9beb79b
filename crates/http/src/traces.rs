// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/trace.json` and `/recording.json`: timelines of armed steps, for Perfetto.
//! What may be large goes out while it is written.

use std::future::Future as _;
use std::io::{self, BufWriter, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use metrale_telemetry::Telemetry;
use metrale_telemetry::kernel::Timeline;
use metrale_telemetry::trace::{DeviceTimelines, write_trace};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::io::ReaderStream;

use crate::pages::{Served, WITHIN, fresh};

/// Traces that are sent at once; one more gets 503.
pub const MAX_TRACES: usize = 4;
/// Bytes that wait for their client.
const CHUNK: usize = 1 << 16;

/// Timelines of each telemetry, to be written as one trace.
///
/// ```
/// use metrale_http::Traces;
/// use metrale_telemetry::global;
///
/// let mut json = Vec::new();
/// Traces::last(&[global()]).write(&mut json)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Traces(Vec<(&'static Telemetry, Vec<Timeline>)>);

impl Traces {
    /// The last armed steps.
    #[must_use]
    pub fn last(telemetry: &[&'static Telemetry]) -> Self {
        Self(telemetry.iter().map(|of| (*of, of.timelines())).collect())
    }

    /// Those that were recorded; `None` where no recording was asked for.
    #[must_use]
    pub fn recorded(telemetry: &[&'static Telemetry]) -> Option<Self> {
        let recorded = telemetry.iter().map(|of| Some((*of, of.recording()?.timelines)));
        recorded.collect::<Option<_>>().map(Self)
    }

    /// Writes them; a telemetry's device has its place as number.
    ///
    /// # Errors
    /// As `out` fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let devices: Vec<_> = (0..)
            .zip(&self.0)
            .map(|(device, (telemetry, timelines))| DeviceTimelines {
                device,
                telemetry,
                timelines,
            })
            .collect();
        write_trace(out, &devices)
    }
}

/// What goes to a client, from a thread that may block.
struct ToClient {
    body: DuplexStream,
    runtime: Handle,
}

impl Write for ToClient {
    /// A client that takes nothing for [`WITHIN`] gets no more.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = tokio::time::timeout(WITHIN, self.body.write(bytes));
        self.runtime.block_on(write)?
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The end of an answer: an error where it is not whole, so that the connection breaks
/// and nobody takes a part for all.
struct End(oneshot::Receiver<()>);

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let whole = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(whole.map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof)))
    }
}

pub(crate) async fn last(State(served): State<Arc<Served>>) -> Response {
    send(served, |telemetry| Some(Traces::last(telemetry))).await
}

pub(crate) async fn recorded(State(served): State<Arc<Served>>) -> Response {
    send(served, Traces::recorded).await
}

async fn send(served: Arc<Served>, take: fn(&[&'static Telemetry]) -> Option<Traces>) -> Response {
    let Ok(turn) = Arc::clone(&served.traces).try_acquire_owned() else {
        let busy = format!("{MAX_TRACES} traces are being sent: ask again later\n");
        return (StatusCode::SERVICE_UNAVAILABLE, busy).into_response();
    };
    let taken = tokio::task::spawn_blocking(move || take(&served.telemetry)).await;
    match taken {
        Ok(Some(traces)) => {
            let (body, rest) = tokio::io::duplex(CHUNK);
            let (whole, end) = oneshot::channel();
            let runtime = Handle::current();
            tokio::task::spawn_blocking(move || {
                let mut out = BufWriter::with_capacity(CHUNK, ToClient { body, runtime });
                // A client that went away, or takes nothing, ends it.
                if traces.write(&mut out).and_then(|()| out.flush()).is_ok() {
                    let _ = whole.send(());
                }
                // What was not taken is not offered again.
                drop(out.into_parts());
                drop(turn);
            });
            let body = ReaderStream::new(rest.chain(End(end)));
            fresh("application/json", Body::from_stream(body))
        }
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// `POST /recording.json?steps=K`. A page of another site may not ask for it.
pub(crate) async fn record(
    State(served): State<Arc<Served>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return StatusCode::FORBIDDEN.into_response();
    }
    let asked = query.as_deref().and_then(|query| query.strip_prefix("steps="));
    let Some(steps) = asked.and_then(|steps| steps.parse().ok()) else {
        let needed = "?steps=K is needed: how many armed steps to record\n";
        return (StatusCode::BAD_REQUEST, needed).into_response();
    };
    match served.telemetry.iter().try_for_each(|of| of.record_steps(steps)) {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}
