//! The resource: who asks, what stands, held until it changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::{HttpRequest, HttpResponse, Scope, web};

use super::answer::{Answer, Found, answer};
use super::preference;
use crate::outcome::authorise::{Caller, Decision, QueryPurpose};
use crate::outcome::lifecycle::OperationState;
use crate::outcome::operations::now_micros;
use crate::outcome::query::{Detail, QueryError};
use crate::outcome::store::row::{self, Mode, OperationRow};
use crate::outcome::{OperationId, OutcomeEngine, OutcomeQuery};
use crate::sql::SqlError;

/// How often a held answer looks whether something has changed.
const HELD_LOOK: Duration = Duration::from_millis(250);

/// The request names nobody: 401.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unauthenticated;

/// Tells who asks, from whatever the application authenticates by.
pub type Identify = Arc<dyn Fn(&HttpRequest) -> Result<Caller, Unauthenticated> + Send + Sync>;

/// The status resource. Cloning shares it; give each worker of an HTTP server a clone.
pub struct StatusResource<DB: OutcomeEngine> {
    query: OutcomeQuery<DB>,
    identify: Identify,
}

impl<DB: OutcomeEngine> Clone for StatusResource<DB> {
    fn clone(&self) -> Self {
        Self { query: self.query.clone(), identify: Arc::clone(&self.identify) }
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
        Self { query, identify: Arc::new(identify) }
    }

    /// The scope to mount: `App::new().service(resource.scope())` answers `GET /operations/{id}`.
    pub fn scope(&self) -> Scope {
        let resource = self.clone();
        let get = move |request: HttpRequest, id: web::Path<String>| {
            let resource = resource.clone();
            async move { resource.respond(&request, &id).await }
        };
        web::scope("/operations").route("/{id}", web::get().to(get))
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
        if first.standing.state.is_terminal() {
            return Ok(found);
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.find(id, caller).await;
            }
            actix_rt::time::sleep(left.min(HELD_LOOK)).await;
            let now = self.read(first.operation_id, caller).await?;
            let unchanged = |now: &OperationRow| now.standing == first.standing && now.attempt == first.attempt;
            if !now.as_ref().is_some_and(unchanged) {
                return self.find(id, caller).await;
            }
        }
    }

    async fn find(&self, id: &str, caller: &Caller) -> Result<Found, QueryError> {
        // A malformed id takes the steps of an unknown one.
        let id = id.parse().unwrap_or_else(|_| OperationId::from_u128(0));
        let operation = self.read(id, caller).await?;
        let decision = self.query.decide(id, operation.as_ref(), caller, QueryPurpose::ReadStatus).await?;
        let Some(operation) = operation else { return Ok(Found::Unavailable) };
        if decision == Decision::Deny || operation.mode != Mode::Deferred {
            return Ok(Found::Unavailable);
        }
        if operation.standing.state != OperationState::Completed {
            return Ok(Found::Standing(operation));
        }
        let mut connection = self.query.operations().readers.acquire().await.map_err(SqlError::from)?;
        Ok(match self.query.read_detail(&mut connection, &operation).await? {
            Detail::Kept(record) => Found::Completed(operation, record),
            Detail::Purged => Found::Expired,
        })
    }

    async fn read(&self, id: OperationId, caller: &Caller) -> Result<Option<OperationRow>, SqlError> {
        let operations = self.query.operations();
        let mut connection = operations.readers.acquire().await?;
        let scope = row::Scope::Tenant(caller.tenant.as_deref());
        row::find::<DB>(&mut connection, &operations.dialect, id, scope).await
    }
}

/// The cause goes to the log and a metric, never into the body.
fn failed(error: &QueryError) -> Found {
    metrics::counter!("perilune_operation_status_failures_total").increment(1);
    tracing::error!(error = %error, "operation.status_failed");
    Found::Failed
}
