//! RFC 9457 problem documents: the one form of every refusal.

use std::borrow::Cow;
use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpResponse, ResponseError};
use serde_json::{Value, json};

/// The media type of a problem document.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:literal, $code:literal, $title:literal;)*) => {
        /// What kind of refusal a problem is: its `code`, `status` and `title`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, in the order of their statuses.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The HTTP status.
            pub(crate) const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// The stable machine-readable name.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// One line for people, the same for every problem of this code.
            pub(crate) const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// Not one strict JSON object, not NDJSON, or a body where none is expected.
    Malformed = 400, "MALFORMED", "the request is malformed";
    /// The handshake breaks the contract.
    ProtocolError = 400, "PROTOCOL_ERROR", "the handshake breaks the contract";
    /// Unknown, expired or revoked credential, or none.
    Unauthenticated = 401, "UNAUTHENTICATED", "the credential is missing or not valid";
    /// The credential lacks the scope or the queue.
    PermissionDenied = 403, "PERMISSION_DENIED", "the credential may not do this";
    /// No such resource for this credential.
    NotFound = 404, "NOT_FOUND", "there is no such resource";
    /// The resource has no such method.
    MethodNotAllowed = 405, "METHOD_NOT_ALLOWED", "the resource has no such method";
    /// The body did not come in time.
    Timeout = 408, "TIMEOUT", "the request took too long";
    /// The task is final.
    TaskFinal = 409, "TASK_FINAL", "the task has ended";
    /// The task belongs to another queue.
    TaskQueue = 409, "TASK_QUEUE", "the task belongs to another queue";
    /// Budget for a delivery that is not EXPIRED.
    NotExpired = 409, "NOT_EXPIRED", "the delivery is not expired";
    /// Body, line or batch over its limit.
    TooLarge = 413, "TOO_LARGE", "the request is too large";
    /// Another media type or an encoding.
    UnsupportedMediaType = 415, "UNSUPPORTED_MEDIA_TYPE", "the media type is not supported";
    /// A field or parameter is missing, mistyped or out of range.
    Invalid = 422, "INVALID", "a value is not valid";
    /// The idempotency key was seen with another body.
    IdempotencyMismatch = 422, "IDEMPOTENCY_MISMATCH", "the idempotency key was used with another body";
    /// The resource is a WebSocket.
    UpgradeRequired = 426, "UPGRADE_REQUIRED", "the resource is a websocket";
    /// Too many sessions or requests.
    RateLimited = 429, "RATE_LIMITED", "there are too many sessions or requests";
    /// A defect of the server.
    Internal = 500, "INTERNAL", "the server failed";
    /// The store can't now, or the server stops.
    Unavailable = 503, "UNAVAILABLE", "the server cannot answer now";
}

/// One bad value, by where it stands in the body (or a parameter's name behind a slash).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// JSON pointer (RFC 6901).
    pub(crate) pointer: String,
    /// What the value must be.
    pub(crate) reason: Cow<'static, str>,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    code: Code,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    /// Whole seconds.
    retry_after: Option<u32>,
    /// The methods of a resource that lacks the asked one.
    allow: Option<&'static str>,
}

impl Problem {
    /// A refusal with its detail, which names no id and holds nothing of the request's body.
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        // Both codes promise the header (http-api.md).
        let retry_after = matches!(code, Code::RateLimited | Code::Unavailable).then_some(1);
        Self { code, detail: detail.into(), errors: Vec::new(), retry_after, allow: None }
    }

    /// 422 with every bad field.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let mut problem = Self::new(Code::Invalid, "some values are not valid");
        problem.errors = errors;
        problem
    }

    /// 422 for one bad value.
    pub(crate) fn invalid_value(pointer: &str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::invalid(vec![FieldError { pointer: pointer.to_owned(), reason: reason.into() }])
    }

    /// The one answer for whatever is not there, or is not this credential's to see.
    pub(crate) fn not_found() -> Self {
        Self::new(Code::NotFound, "no such resource exists for this credential")
    }

    /// 405 with the methods that the resource has.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let mut problem = Self::new(Code::MethodNotAllowed, "the allow header names the resource's methods");
        problem.allow = Some(allow);
        problem
    }

    /// Says when to try again at the earliest, in whole seconds.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The refusal's code.
    pub(crate) const fn code(&self) -> Code {
        self.code
    }

    /// The document.
    pub(crate) fn to_json(&self) -> Value {
        let mut document = json!({
            "type": format!("urn:perilune:problem:{}", self.code.as_str().to_ascii_lowercase()),
            "title": self.code.title(),
            "status": self.code.status(),
            "code": self.code.as_str(),
            "detail": self.detail,
        });
        if !self.errors.is_empty() {
            let errors = self.errors.iter().map(|error| json!({"pointer": error.pointer, "reason": error.reason}));
            document["errors"] = errors.collect();
        }
        document
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.title())
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        // Every status of the table is a valid one.
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        response.insert_header((header::CONTENT_TYPE, PROBLEM_JSON));
        response.insert_header((header::CACHE_CONTROL, "no-store"));
        if let Some(seconds) = self.retry_after {
            response.insert_header((header::RETRY_AFTER, seconds));
        }
        if let Some(allow) = self.allow {
            response.insert_header((header::ALLOW, allow));
        }
        match self.code {
            Code::Unauthenticated => {
                response.insert_header((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
            }
            Code::UpgradeRequired => {
                response.insert_header((header::UPGRADE, HeaderValue::from_static("websocket")));
                response.insert_header((header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")));
            }
            _ => {}
        }
        response.body(self.to_json().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_every_member_of_the_contract() {
        let problem = Problem::invalid_value("/window", "must be an integer from 1 to 4096");
        let expected = json!({
            "type": "urn:perilune:problem:invalid",
            "title": "a value is not valid",
            "status": 422,
            "code": "INVALID",
            "detail": "some values are not valid",
            "errors": [{"pointer": "/window", "reason": "must be an integer from 1 to 4096"}],
        });
        assert_eq!(problem.to_json(), expected);
    }

    #[test]
    fn what_may_be_tried_again_says_when() {
        for code in [Code::RateLimited, Code::Unavailable] {
            let response = Problem::new(code, "busy").error_response();
            assert_eq!(response.headers().get(header::RETRY_AFTER), Some(&HeaderValue::from_static("1")));
        }
    }

    #[test]
    fn a_code_stands_for_one_status_that_exists() {
        for code in Code::ALL {
            assert!(
                StatusCode::from_u16(code.status())
                    .is_ok_and(|status| status.is_client_error() || status.is_server_error())
            );
            assert_eq!(Code::ALL.iter().filter(|other| other.as_str() == code.as_str()).count(), 1);
        }
    }
}
