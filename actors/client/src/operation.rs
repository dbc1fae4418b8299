//! How an operation stands: the status resource of an application, as a client reads it.
//!
//! Source: outcome.md sections 4 and 5. One request a `status`, strict decoding; `wait` asks until the operation has
//! ended, by `Retry-After` and `Prefer: wait`.

mod decode;

use std::time::Duration;

use awc::http::header;
use futures_util::StreamExt as _;
use perilune_proto::scalar::{TaskId, Timestamp};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::options::Client;

/// The longest that a server is asked to hold its answer.
const HOLD_MAX: Duration = Duration::from_secs(30);
/// What a request may take beyond the time that its answer is held.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long before the end of a wait the last request is made, whatever `Retry-After` says: what has ended by then
/// is not missed.
const LAST_REQUEST: Duration = Duration::from_millis(500);
/// The longest status that is read: an outcome came in one frame.
const STATUS_BYTES_MAX: usize = 1024 * 1024;

/// How an operation stands. `O` is its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationStatus<O> {
    /// It was accepted and has not begun.
    Accepted,
    /// A worker runs it.
    Running {
        /// How many times it was started.
        attempt: u32,
        /// Whether a person must look.
        review_required: bool,
    },
    /// It failed and will be tried again.
    RetryScheduled {
        /// How many times it was started.
        attempt: u32,
        /// When, where the platform said so.
        retry_at: Option<Timestamp>,
    },
    /// It ended well.
    Completed(O),
    /// It was refused for what it asks.
    Rejected {
        /// What kind of refusal.
        category: String,
        /// Which refusal.
        code: String,
    },
    /// It ended in failure.
    Failed,
    /// It was given up after its tries.
    DeadLettered,
}

impl<O> OperationStatus<O> {
    /// Whether nothing follows it.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        !matches!(self, Self::Accepted | Self::Running { .. } | Self::RetryScheduled { .. })
    }
}

/// An answer of the status resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusAnswer<O> {
    /// How the operation stands.
    pub status: OperationStatus<O>,
    /// When to ask again, for a pending status: 1 to 60 s.
    pub retry_after: Option<Duration>,
}

/// Why there is no status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// 401: the credential is missing, unknown or expired.
    #[error("the credential was refused")]
    Authentication,
    /// 404: there is no such operation for this caller.
    #[error("the operation is unavailable")]
    Unavailable,
    /// 410: its outcome was purged.
    #[error("the operation's outcome has expired")]
    Expired,
    /// 500: the application failed.
    #[error("the application failed")]
    Internal,
    /// Another status.
    #[error("the application answered HTTP {0}")]
    Http(u16),
    /// No answer, or none in time.
    #[error("the application can't be reached")]
    Transport,
    /// An answer that is not what the resource answers, or of another operation or type.
    #[error("the application's answer is not a status of this operation")]
    InvalidAnswer,
    /// The operation had not ended when the wait did.
    #[error("the operation did not end in time")]
    PollTimeout,
}

impl Client {
    /// How an operation stands now: one request to the status resource below the client's address. An answer of
    /// another type than `operation_type` is refused; `None` takes any.
    ///
    /// # Errors
    /// [`StatusError`], never `PollTimeout`.
    pub async fn operation_status<O: DeserializeOwned>(
        &self,
        id: TaskId,
        operation_type: impl Into<Option<&str>>,
    ) -> Result<StatusAnswer<O>, StatusError> {
        self.ask_status(id, operation_type.into(), Duration::ZERO).await
    }

    /// Waits until an operation has ended, at most for `max_wait`. Dropping the future ends the wait. An answer of
    /// another type than `operation_type` is refused; `None` takes any.
    ///
    /// # Errors
    /// [`StatusError`]: any error ends the wait. `PollTimeout` comes when `max_wait` is over and not before.
    pub async fn wait_operation<O: DeserializeOwned>(
        &self,
        id: TaskId,
        operation_type: impl Into<Option<&str>>,
        max_wait: Duration,
    ) -> Result<OperationStatus<O>, StatusError> {
        let operation_type = operation_type.into();
        let begun = Instant::now();
        let left = || max_wait.saturating_sub(begun.elapsed());
        loop {
            let asked = Instant::now();
            let last = left() <= LAST_REQUEST;
            // The answer to the last request must be here before the time is over.
            let hold = left().saturating_sub(LAST_REQUEST).min(HOLD_MAX);
            let asking = timeout(left(), self.ask_status(id, operation_type, hold));
            let answer = asking.await.map_err(|_| StatusError::PollTimeout)??;
            if answer.status.is_terminal() {
                return Ok(answer.status);
            }
            if last {
                sleep(left()).await;
                return Err(StatusError::PollTimeout);
            }
            // A held answer has waited already.
            let pause = answer.retry_after.unwrap_or(Duration::from_secs(1)).saturating_sub(asked.elapsed());
            sleep(pause.min(left().saturating_sub(LAST_REQUEST))).await;
        }
    }

    async fn ask_status<O: DeserializeOwned>(
        &self,
        id: TaskId,
        operation_type: Option<&str>,
        hold: Duration,
    ) -> Result<StatusAnswer<O>, StatusError> {
        let exchange = async {
            let http = self.http().await.map_err(|_| StatusError::Transport)?;
            let mut request = http.get(self.http_url(&format!("/operations/{id}"))).timeout(hold + REQUEST_TIMEOUT);
            if hold >= Duration::from_secs(1) {
                request = request.insert_header(("prefer", format!("wait={}", hold.as_secs())));
            }
            let credential = self.authorization().await.map_err(|_| StatusError::Authentication)?;
            request = request.insert_header((header::AUTHORIZATION, credential));
            let mut response = request.send().await.map_err(|_| StatusError::Transport)?;
            let mut body = Vec::new();
            while let Some(chunk) = response.next().await {
                body.extend_from_slice(&chunk.map_err(|_| StatusError::Transport)?);
                if body.len() > STATUS_BYTES_MAX {
                    return Err(StatusError::InvalidAnswer);
                }
            }
            match response.status().as_u16() {
                200 => {}
                401 => return Err(StatusError::Authentication),
                404 => return Err(StatusError::Unavailable),
                410 => return Err(StatusError::Expired),
                500 => return Err(StatusError::Internal),
                other => return Err(StatusError::Http(other)),
            }
            let seconds =
                response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            let status = decode::status(&body, id, operation_type).ok_or(StatusError::InvalidAnswer)?;
            let retry_after = seconds.filter(|_| !status.is_terminal()).map(Duration::from_secs);
            Ok(StatusAnswer { status, retry_after })
        };
        timeout(hold + REQUEST_TIMEOUT, exchange).await.unwrap_or(Err(StatusError::Transport))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::Credential;

    #[actix_rt::test]
    async fn a_wait_bears_any_duration_from_either_side() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let credential = Credential::new("of-the-tests").expect("visible ASCII");
        let client = Client::builder(url).credential(credential).build().expect("a loopback address");
        let id = TaskId::from_u128(7);
        let body = format!(r#"{{"schemaVersion":1,"operationId":"{id}","operationType":"Report","state":"accepted"}}"#);
        let head = format!("HTTP/1.1 200 OK\r\nretry-after: {}\r\ncontent-length: {}\r\n\r\n", u64::MAX, body.len());
        let answers = async {
            let (mut socket, _) = listener.accept().await.expect("a request");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(socket.read_u8().await.expect("a whole request"));
            }
            socket.write_all((head + &body).as_bytes()).await.expect("the client reads");
            socket
        };
        let wait = client.wait_operation::<()>(id, None, Duration::MAX);
        tokio::pin!(wait);
        let _socket = tokio::select! {
            ended = &mut wait => panic!("nobody lives to ask again, but it ended with {ended:?}"),
            socket = answers => socket,
        };
        // Long enough to read the answer and to begin the pause that it asks for.
        let ended = timeout(Duration::from_millis(200), wait).await;
        assert!(ended.is_err(), "it goes on waiting: {ended:?}");
    }
}
