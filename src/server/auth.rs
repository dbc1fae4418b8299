//! Who asks, and whether they may.
//!
//! A credential is looked up by the SHA-256 of what was presented, and the stored hash compared in constant
//! time; the text itself is neither kept nor logged.

use actix_web::HttpRequest;
use actix_web::http::header;
use perilune_proto::scalar::Name;

use super::gate::Pass;
use super::problem::{Code, Problem};
use super::state::State;
use super::store::{CredentialId, Principal, Scope, SecretHash};

/// Longest `Authorization` header that is looked at.
const PRESENTED_MAX: usize = 1_024;

/// A request whose credential was judged. It holds a place among the requests that are being answered.
#[derive(Debug)]
pub(crate) struct Caller {
    principal: Principal,
    _pass: Pass,
}

impl Caller {
    /// The credential.
    pub(crate) const fn credential_id(&self) -> CredentialId {
        self.principal.credential_id
    }

    /// Whether the queue is one of the credential's.
    pub(crate) fn reaches(&self, queue: &Name) -> bool {
        self.principal.queues.contains(queue)
    }

    /// Refuses a queue that is not one of the credential's.
    pub(crate) fn expect_queue(&self, queue: Option<&Name>) -> Result<(), Problem> {
        match queue {
            Some(queue) if self.reaches(queue) => Ok(()),
            _ => Err(Problem::new(Code::PermissionDenied, "the queue is not one of the credential's")),
        }
    }
}

/// Judges a request's credential for a scope, and counts the request.
///
/// # Errors
/// 401, 403, 429, or 503 where the store can't say.
pub(crate) async fn authorize(state: &State, request: &HttpRequest, scope: Scope) -> Result<Caller, Problem> {
    let (principal, _) = authenticate(state, request).await?;
    expect_scope(&principal, scope)?;
    let pass = state.requests.enter(principal.credential_id).map_err(|_| {
        state.metrics.limited.increment(1);
        Problem::new(Code::RateLimited, "too many requests are being answered")
    })?;
    Ok(Caller { principal, _pass: pass })
}

/// Refuses a credential without the scope.
pub(crate) fn expect_scope(principal: &Principal, scope: Scope) -> Result<(), Problem> {
    if principal.scopes.contains(scope) {
        return Ok(());
    }
    Err(Problem::new(Code::PermissionDenied, format!("the credential lacks the scope {scope}")))
}

/// Finds out whose credential a request presents.
///
/// # Errors
/// 401, or 503 where the store can't say.
pub(crate) async fn authenticate(state: &State, request: &HttpRequest) -> Result<(Principal, SecretHash), Problem> {
    let refused = || Problem::new(Code::Unauthenticated, "a valid bearer credential is required");
    let presented = bearer(request).map(SecretHash::of).ok_or_else(refused)?;
    let found = state.store.authenticate(presented).await.map_err(|error| state.problem(&error))?;
    found.map(|principal| (principal, presented)).ok_or_else(refused)
}

/// The text behind `Bearer` in the one `Authorization` header.
fn bearer(request: &HttpRequest) -> Option<&str> {
    let mut headers = request.headers().get_all(header::AUTHORIZATION);
    let value = headers.next().filter(|value| value.len() <= PRESENTED_MAX)?;
    if headers.next().is_some() {
        return None;
    }
    let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
    let text = text.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_one_bearer_header_is_a_credential() {
        let with = |value: &'static str| TestRequest::default().insert_header((header::AUTHORIZATION, value));
        assert_eq!(bearer(&with("Bearer abc").to_http_request()), Some("abc"));
        assert_eq!(bearer(&with("bearer  abc").to_http_request()), Some("abc"));
        for bad in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(bearer(&with(bad).to_http_request()), None, "{bad}");
        }
        let twice = with("Bearer abc").append_header((header::AUTHORIZATION, "Bearer def"));
        assert_eq!(bearer(&twice.to_http_request()), None);
        assert_eq!(bearer(&TestRequest::default().to_http_request()), None);
    }
}
