//! The platform's HTTP API (http-api.md), as the commands call it.

mod problem;
mod shown;

use std::time::Duration;

use awc::error::{ConnectError, SendRequestError};
use awc::http::{Method, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use perilune_client::Client;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

pub(crate) use problem::{Body as ProblemBody, Problem};
use shown::Page;
pub(crate) use shown::Shown;

use super::connect::ConnectArgs;
use super::exit::{Failure, Outcome};

/// The whole time of one call, the answer's body included.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer that is read: a page of 1,000 deliveries or the verdicts of a batch are far below it.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Calls the platform with a credential.
pub(crate) struct Api {
    client: Client,
    http: awc::Client,
    url: String,
}

/// One request.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// Path and query, which begin with a slash.
    pub(crate) path: &'a str,
    /// Content type and bytes.
    pub(crate) body: Option<(&'static str, Bytes)>,
    pub(crate) idempotency_key: Option<&'a str>,
}

/// A 2xx answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// Why there is no 2xx answer.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// Something of our own: the credential can't be had any more.
    Local(String),
    /// No answer, or none that is HTTP.
    Unreachable(String),
    /// The platform refused.
    Problem(Problem),
}

impl ApiError {
    /// Whether the same call may do better later, and what the platform asks to wait.
    pub(crate) const fn retry(&self) -> Option<Option<Duration>> {
        match self {
            Self::Local(_) => None,
            Self::Unreachable(_) => Some(None),
            Self::Problem(problem) if problem.is_retriable() => Some(problem.retry_after),
            Self::Problem(_) => None,
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Local(sentence) => Self::failed(sentence),
            ApiError::Unreachable(sentence) => Self::failed(sentence),
            ApiError::Problem(problem) => problem.into(),
        }
    }
}

impl Api {
    /// Gets ready to call the platform. Nothing is sent yet.
    ///
    /// # Errors
    /// Usage errors of the connection's options; files with certificates that can't be used.
    pub(crate) async fn open(args: &ConnectArgs) -> Outcome<Self> {
        Self::with(args.client()?, args.url.to_string()).await
    }

    /// Gets ready to call the platform by a client of the caller's; `url` is its name in errors.
    ///
    /// # Errors
    /// Files with certificates that can't be used.
    pub(crate) async fn with(client: Client, url: String) -> Outcome<Self> {
        let http = client.http().await.map_err(|error| Failure::Failed(error.into()))?;
        Ok(Self { client, http, url })
    }

    /// Reads a resource.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        read(&self.call(Call { method: Method::GET, path, body: None, idempotency_key: None }).await?)
    }

    /// Reads a list, page by page, to its end.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &[(&str, String)],
    ) -> Outcome<Vec<Shown<T>>> {
        let (mut items, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = self.page(path, filter, after.as_deref()).await?;
            items.extend(page);
            match next {
                Some(next) => after = Some(next),
                None => return Ok(items),
            }
        }
    }

    /// Reads a page of a list, and what to pass as `after` for the next one.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &[(&str, String)],
        after: Option<&str>,
    ) -> Outcome<(Vec<Shown<T>>, Option<String>)> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", "1000").extend_pairs(filter);
        query.extend_pairs(after.map(|after| ("after", after)));
        let page: Page<T> = self.get(&format!("{path}?{}", query.finish())).await?;
        Ok((page.items, page.next))
    }

    /// Sends a JSON body, if any, and reads the resource that comes back.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<&impl serde::Serialize>,
    ) -> Outcome<T> {
        let body = body.map(serde_json::to_vec).transpose();
        let body =
            body.map_err(|error| Failure::Failed(anyhow::Error::new(error).context("can't write the request")))?;
        let body = body.map(|body| ("application/json", body.into()));
        read(&self.call(Call { method: Method::POST, path, body, idempotency_key: None }).await?)
    }

    /// Deletes a resource.
    pub(crate) async fn delete(&self, path: &str) -> Outcome {
        self.call(Call { method: Method::DELETE, path, body: None, idempotency_key: None }).await?;
        Ok(())
    }

    /// Makes one call, once.
    ///
    /// # Errors
    /// [`ApiError`] for everything but a 2xx answer.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Answer, ApiError> {
        match tokio::time::timeout(CALL_TIMEOUT, self.send(call)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable("no answer in time")),
        }
    }

    async fn send(&self, call: Call<'_>) -> Result<Answer, ApiError> {
        let authorization = self.client.authorization().await.map_err(|error| ApiError::Local(error.to_string()))?;
        let request = self.http.request(call.method, self.client.http_url(call.path)).timeout(CALL_TIMEOUT);
        let mut request = request.insert_header((header::AUTHORIZATION, authorization));
        if let Some(key) = call.idempotency_key {
            request = request.insert_header(("idempotency-key", key));
        }
        let sent = match call.body {
            Some((kind, body)) => request.insert_header((header::CONTENT_TYPE, kind)).send_body(body),
            None => request.send(),
        };
        let mut response = sent.await.map_err(|error| self.unreachable(&describe(&error)))?;
        let status = response.status().as_u16();
        let retry_after =
            response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = self.read_body(&mut response).await?;
        if response.status().is_success() {
            return Ok(Answer { status, body });
        }
        // Seconds only; a date is ignored.
        let retry_after = retry_after.map(Duration::from_secs);
        Err(ApiError::Problem(Problem::read(status, retry_after, &body)))
    }

    async fn read_body<S>(&self, response: &mut awc::ClientResponse<S>) -> Result<Bytes, ApiError>
    where
        S: futures_util::Stream<Item = Result<Bytes, awc::error::PayloadError>> + Unpin,
    {
        let mut body = BytesMut::new();
        while let Some(chunk) = response.next().await {
            let chunk = chunk.map_err(|_| self.unreachable("the answer broke off"))?;
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(self.unreachable("the answer is too long"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    fn unreachable(&self, why: &str) -> ApiError {
        ApiError::Unreachable(format!("no answer from {}: {why}", self.url))
    }
}

/// Reads an answer's JSON.
///
/// # Errors
/// Where it is not what was asked for.
pub(crate) fn read<T: DeserializeOwned>(answer: &Answer) -> Outcome<T> {
    serde_json::from_slice(&answer.body).map_err(|_| {
        Failure::failed(format!("the platform's answer ({}) is not what this version can read", answer.status))
    })
}

/// What went wrong, without what the other side said.
pub(crate) fn describe(error: &SendRequestError) -> String {
    match error {
        SendRequestError::Timeout | SendRequestError::Connect(ConnectError::Timeout) => "timed out".to_owned(),
        SendRequestError::Connect(ConnectError::Resolver(_) | ConnectError::NoRecords) => {
            "the host's name is not known".to_owned()
        }
        SendRequestError::Connect(ConnectError::Disconnected) => "the connection was closed at once".to_owned(),
        SendRequestError::Connect(ConnectError::Io(error)) | SendRequestError::Send(error) => error.to_string(),
        SendRequestError::Response(_) => "what came back is not HTTP".to_owned(),
        SendRequestError::Url(_) => "the URL can't be called".to_owned(),
        _ => "the request could not be sent".to_owned(),
    }
}
