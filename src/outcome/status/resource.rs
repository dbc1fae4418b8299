//! The resource: who asks, what stands, held until it changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::http::Method;
use actix_web::http::header::{ALLOW, CACHE_CONTROL};
use actix_web::{HttpRequest, HttpResponse, Scope, guard, web};
use tokio::sync::Semaphore;

use super::answer::{Answer, Found, answer};
use super::preference;
use crate::outcome::authorise::{Caller, Decision, QueryPurpose};
use crate::outcome::lifecycle::OperationState;
use crate::outcome::operations::now_micros;
use crate::outcome::query::{Detail, QueryError};
use crate::outcome::store::row::{Mode, OperationRow};
use crate::outcome::{OperationId, OutcomeEngine, OutcomeQuery};

/// How often a held answer looks whether something has changed.
const HELD_LOOK: Duration = Duration::from_millis(250);

/// Answers that are held at a time, unless told otherwise. Each looks four times a second.
const HELD_MAX: usize = 256;

/// The request names nobody: 401.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unauthenticated;

/// Tells who asks, from whatever the application authenticates by.
pub type Identify = Arc<dyn Fn(&HttpRequest) -> Result<Caller, Unauthenticated> + Send + Sync>;

/// The status resource. Cloning shares it; give each worker of an HTTP server a clone.
pub struct StatusResource<DB: OutcomeEngine> {
    query: OutcomeQuery<DB>,
    identify: Identify,
    holds: Arc<Semaphore>,
}

impl<DB: OutcomeEngine> Clone for StatusResource<DB> {
    fn clone(&self) -> Self {
        Self { query: self.query.clone(), identify: Arc::clone(&self.identify), holds: Arc::clone(&self.holds) }
    }
}

impl<DB: OutcomeEngine> std::fmt::Debug for StatusResource<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusResource").finish_non_exhaustive()
    }
}

impl<DB: OutcomeEngine> StatusResource<DB> {
    /// Answers what `query` allows to whom `identify` names.
    #[must_use]
    pub fn new(
        query: OutcomeQuery<DB>,
        identify: impl Fn(&HttpRequest) -> Result<Caller, Unauthenticated> + Send + Sync + 'static,
    ) -> Self {
        Self { query, identify: Arc::new(identify), holds: Arc::new(Semaphore::new(HELD_MAX)) }
    }

    /// How many answers are held at a time by this resource and its clones together; 256 by default. A held answer asks
    /// the database four times a second. Beyond this many, and always with 0, `Prefer: wait` is not heeded: the answer
    /// comes at once, with its `Retry-After`.
    #[must_use]
    pub fn held_max(mut self, answers: usize) -> Self {
        self.holds = Arc::new(Semaphore::new(answers.min(Semaphore::MAX_PERMITS)));
        self
    }

    /// The scope to mount: `App::new().service(resource.scope())` answers `GET /operations/{id}`. Whatever else is
    /// asked for below `/operations` is a malformed id; another method is a 405.
    pub fn scope(&self) -> Scope {
        let resource = self.clone();
        let get = move |request: HttpRequest| {
            let resource = resource.clone();
            async move {
                let id = request.match_info().get("id").unwrap_or_default().to_owned();
                resource.respond(&request, &id).await
            }
        };
        let read = || web::route().guard(guard::Any(guard::Get()).or(guard::Head()));
        let operation = web::resource("/{id}").route(read().to(get.clone())).default_service(web::to(not_allowed));
        web::scope("/operations").service(operation).default_service(web::to(get))
    }

    async fn respond(&self, request: &HttpRequest, id: &str) -> HttpResponse {
        let found = match (self.identify)(request) {
            Ok(caller) => {
                let hold = preference::hold(request.headers());
                self.find_held(id, &caller, hold).await.unwrap_or_else(|error| failed(&error))
            }
            Err(Unauthenticated) => Found::Unauthenticated,
        };
        let answer = answer(&found, now_micros()).or_else(|error| {
            let failed = failed(&error.into());
            answer(&failed, now_micros())
        });
        // Only an outcome's payload can fail to be written, and a failure has none.
        answer.map_or_else(|_| HttpResponse::InternalServerError().finish(), Answer::into_response)
    }

    /// What stands, at the latest after `hold` or as soon as it changes.
    async fn find_held(&self, id: &str, caller: &Caller, hold: Duration) -> Result<Found, QueryError> {
        let deadline = Instant::now() + hold;
        let found = self.find(id, caller).await?;
        let Found::Standing(first) = &found else { return Ok(found) };
        if first.standing.state.is_terminal() || hold.is_zero() {
            return Ok(found);
        }
        let Ok(_held) = self.holds.try_acquire() else {
            metrics::counter!("perilune_operation_status_not_held_total").increment(1);
            return Ok(found);
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.find(id, caller).await;
            }
            actix_rt::time::sleep(left.min(HELD_LOOK)).await;
            let now = self.query.read_subject(first.operation_id, caller).await?;
            let unchanged = |now: &OperationRow| now.standing == first.standing && now.attempt == first.attempt;
            if !now.as_ref().is_some_and(unchanged) {
                return self.find(id, caller).await;
            }
        }
    }

    async fn find(&self, id: &str, caller: &Caller) -> Result<Found, QueryError> {
        // A malformed id takes the steps of an unknown one, whatever stands under the id that is looked for instead.
        let parsed = id.parse().ok();
        let id = parsed.unwrap_or_else(|| OperationId::from_u128(0));
        let operation = self.query.read_subject(id, caller).await?.filter(|_| parsed.is_some());
        let decision = self.query.decide(id, operation.as_ref(), caller, QueryPurpose::ReadStatus).await?;
        let Some(operation) = operation else { return Ok(Found::Unavailable) };
        if decision == Decision::Deny || operation.mode != Mode::Deferred {
            return Ok(Found::Unavailable);
        }
        if operation.standing.state != OperationState::Completed {
            return Ok(Found::Standing(operation));
        }
        Ok(match self.query.read_detail(&operation).await? {
            Detail::Kept(record) => Found::Completed(operation, record),
            Detail::Purged => Found::Expired,
        })
    }
}

async fn not_allowed() -> HttpResponse {
    let allowed = [Method::GET.as_str(), Method::HEAD.as_str()].join(", ");
    HttpResponse::MethodNotAllowed()
        .insert_header((ALLOW, allowed))
        .insert_header((CACHE_CONTROL, "private, no-store"))
        .finish()
}

/// The cause goes to the log and a metric, never into the body.
fn failed(error: &QueryError) -> Found {
    metrics::counter!("perilune_operation_status_failures_total").increment(1);
    tracing::error!(error = %causes(error), "operation.status_failed");
    Found::Failed
}

/// An error and what caused it, each in its own words, which hold no payload.
fn causes(error: &QueryError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
