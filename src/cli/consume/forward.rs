//! `--forward-to`: one POST an event, as Standard Webhooks has it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use awc::http::header;
use perilune_client::{Client, Credential};
use perilune_proto::ResultEvent;
use tokio::sync::OnceCell;
use url::Url;

use super::event_json;
use super::sink::SinkError;
use super::webhook::Signer;
use crate::cli::api::describe;
use crate::cli::exit::{Failure, Outcome};

/// Above any lease, whose own end gives up the request.
const OUT_OF_THE_WAY: Duration = Duration::from_secs(3_600);

/// Where events are sent. Its path and query may be secret, so it never prints.
#[derive(Clone)]
pub(crate) struct Target {
    url: Url,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url.origin().ascii_serialization())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("must be a URL: {error}"))?;
        match url.scheme() {
            "http" | "https" => Ok(Self { url }),
            _ => Err("must begin with http:// or https://".to_owned()),
        }
    }
}

/// What every handler thread needs to send events.
#[derive(Debug, Clone)]
pub(crate) struct Forward {
    target: Target,
    signer: Option<Signer>,
    client: Client,
}

impl Forward {
    /// Gets ready to send.
    ///
    /// # Errors
    /// A usage error for plaintext beyond loopback, or a secret that can't be read.
    pub(crate) fn new(target: Target, allow_plaintext: bool, ca_file: Option<&PathBuf>) -> Outcome<Self> {
        // The receiver gets a signature and never a credential: this one satisfies the builder and is not sent.
        let unused = Credential::new("unused").map_err(|error| Failure::Failed(error.into()))?;
        let mut builder = Client::builder(target.url.origin().ascii_serialization()).credential(unused);
        if allow_plaintext {
            builder = builder.allow_plaintext();
        }
        if let Some(path) = ca_file {
            builder = builder.ca_file(path);
        }
        let client = builder.build().map_err(|error| {
            Failure::usage(format!("--forward-to {}: use https, or give --allow-plaintext", error.problem))
        })?;
        Ok(Self { target, signer: Signer::from_variable()?, client })
    }
}

/// One handler thread's sender: sockets stay on their thread.
pub(crate) struct Forwarder {
    forward: Forward,
    http: OnceCell<awc::Client>,
}

impl Forwarder {
    pub(crate) const fn new(forward: Forward) -> Self {
        Self { forward, http: OnceCell::const_new() }
    }

    /// Sends the event, within what is left of its lease.
    ///
    /// # Errors
    /// Everything but a 2xx answer in time. No redirect is followed.
    pub(crate) async fn handle(&self, event: &ResultEvent, lease_left: Duration) -> Result<(), SinkError> {
        tokio::time::timeout(lease_left, self.send(event)).await.unwrap_or(Err(SinkError::LeaseOver))
    }

    async fn send(&self, event: &ResultEvent) -> Result<(), SinkError> {
        let json = event_json::write(event).map_err(|_| SinkError::Malformed)?;
        let id = event.event_id.to_string();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let http = self.http.get_or_try_init(|| self.forward.client.http()).await;
        let http = http.map_err(|error| SinkError::Unreachable(error.to_string()))?;
        let mut request = http
            .post(self.forward.target.url.as_str())
            .timeout(OUT_OF_THE_WAY)
            .insert_header((header::CONTENT_TYPE, "application/json"))
            .insert_header(("webhook-id", id.as_str()))
            .insert_header(("webhook-timestamp", now.to_string()));
        if let Some(signer) = &self.forward.signer {
            request = request.insert_header(("webhook-signature", signer.sign(&id, now, json.as_bytes())));
        }
        let answer = request.send_body(json.as_bytes().to_vec()).await;
        let status = answer.map_err(|error| SinkError::Unreachable(describe(&error)))?.status();
        if status.is_success() { Ok(()) } else { Err(SinkError::Refused(status.as_u16())) }
    }
}
