//! Messages as HTTP requests, by awc.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use awc::http::{StatusCode, header};
use awc::{Client, Connector};
use rustls::{ClientConfig, RootCertStore};

use super::message::Outgoing;
use super::sender::{SendFailure, Sender};

/// Longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// POSTs each message to a URL of its topic's.
///
/// `Idempotency-Key` is the message's id, `Content-Type` its own. A 2xx is sent. 401, 403, 408, 425, 429 and 5xx may
/// pass (a `Retry-After` in seconds is honoured up to an hour), as may whatever goes wrong on the way; any other status
/// is a refusal, and the message is dead. No redirect is followed: it would carry credentials elsewhere.
pub struct HttpSender {
    route: Route,
    tls: Arc<ClientConfig>,
    headers: Vec<(header::HeaderName, header::HeaderValue)>,
    // An awc client lives on the thread that sends.
    client: OnceCell<Client>,
}

type Route = Box<dyn Fn(&str) -> Option<String>>;

/// An [`HttpSender`] could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpSenderError {
    /// The operating system has no certificate roots that can be read.
    #[error("no root certificate was found")]
    NoRoots,
    /// TLS can't be set up.
    #[error("tls can't be set up")]
    Tls,
    /// A header's name or value has characters that it must not have.
    #[error("a header's name or value is malformed")]
    Header,
}

impl HttpSender {
    /// Sends to where `route` says for a topic; a topic without a route is a refusal. `https` trusts the operating
    /// system's roots.
    ///
    /// # Errors
    /// [`HttpSenderError`].
    pub fn new(route: impl Fn(&str) -> Option<String> + 'static) -> Result<Self, HttpSenderError> {
        let mut roots = RootCertStore::empty();
        for certificate in rustls_native_certs::load_native_certs().certs {
            // One that rustls can't read is one authority less.
            let _unreadable = roots.add(certificate);
        }
        if roots.is_empty() {
            return Err(HttpSenderError::NoRoots);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| HttpSenderError::Tls)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self::with_tls(route, config))
    }

    /// [`HttpSender::new`] with a TLS configuration of the caller's: own authorities, a client certificate.
    pub fn with_tls(route: impl Fn(&str) -> Option<String> + 'static, mut tls: ClientConfig) -> Self {
        // HTTP/1.1 only: awc's HTTP/2 is of an old version.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { route: Box::new(route), tls: Arc::new(tls), headers: Vec::new(), client: OnceCell::new() }
    }

    /// Adds a header to every request, such as a credential. Its value never prints.
    ///
    /// # Errors
    /// [`HttpSenderError::Header`].
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, HttpSenderError> {
        let name = name.parse().map_err(|_| HttpSenderError::Header)?;
        self.headers.push((name, value.parse().map_err(|_| HttpSenderError::Header)?));
        Ok(self)
    }

    fn client(&self) -> &Client {
        self.client.get_or_init(|| {
            let connector = Connector::new().rustls_0_23(Arc::clone(&self.tls));
            // The relay's own timeout bounds a request as a whole.
            Client::builder().connector(connector).disable_redirects().disable_timeout().finish()
        })
    }
}

impl Sender for HttpSender {
    async fn send(&self, message: &Outgoing) -> Result<(), SendFailure> {
        let url = (self.route)(message.topic.as_str()).ok_or_else(|| SendFailure::refused("NO_ROUTE"))?;
        let mut request = self
            .client()
            .post(url)
            .insert_header((header::CONTENT_TYPE, message.content_type.as_str()))
            .insert_header(("Idempotency-Key", message.id.to_string()));
        for (name, value) in &self.headers {
            request = request.insert_header((name.clone(), value.clone()));
        }
        let answer = request.send_body(message.body.clone()).await.map_err(|error| match error {
            awc::error::SendRequestError::Url(_) => SendFailure::refused("BAD_URL"),
            awc::error::SendRequestError::Timeout => SendFailure::retry("TIMEOUT"),
            _ => SendFailure::retry("UNREACHABLE"),
        })?;
        judge_answer(answer.status(), answer.headers())
    }
}

/// What an HTTP answer says about a message: it was taken, it may be taken later, or never.
pub(crate) fn judge_answer(status: StatusCode, headers: &header::HeaderMap) -> Result<(), SendFailure> {
    let wait = headers.get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
    judge(status, wait.map(Duration::from_secs))
}

fn judge(status: StatusCode, wait: Option<Duration>) -> Result<(), SendFailure> {
    let code = format!("HTTP_{}", status.as_u16());
    match status.as_u16() {
        200..=299 => Ok(()),
        401 | 403 | 408 | 425 | 429 | 500..=599 => {
            Err(SendFailure::retry(&code).after(wait.unwrap_or_default().min(RETRY_AFTER_MAX)))
        }
        _ => Err(SendFailure::refused(&code)),
    }
}

impl fmt::Debug for HttpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSender").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sender::Remedy;
    use super::*;

    #[test]
    fn a_status_says_sent_later_or_never() {
        let judged = |status: u16, wait| judge(StatusCode::from_u16(status).expect("a status"), wait);
        assert_eq!(judged(204, None), Ok(()));
        for status in [401, 403, 408, 425, 429, 500, 503] {
            let failure = judged(status, Some(Duration::from_secs(9))).expect_err("not sent");
            assert_eq!(failure.remedy(), Remedy::Retry(Duration::from_secs(9)), "{status}");
        }
        for status in [301, 400, 404, 409, 413, 422] {
            assert_eq!(judged(status, None).expect_err("not sent").remedy(), Remedy::None, "{status}");
        }
        let failure = judged(503, Some(Duration::from_secs(86_400))).expect_err("not sent");
        assert_eq!(failure.remedy(), Remedy::Retry(RETRY_AFTER_MAX));
        assert_eq!(failure.code(), "HTTP_503");
    }

    #[test]
    fn a_header_s_value_never_prints() {
        let sender = HttpSender::new(|_| None).expect("made").header("authorization", "Bearer s3cret").expect("added");
        assert!(!format!("{sender:?}").contains("s3cret"));
    }
}
