//! Who may know how an operation ended: asked before anything of it is read.
//!
//! Source: outcome.md section 3.

use std::future::Future;
use std::pin::Pin;

use super::OperationId;

/// Who asks, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who asks.
    pub actor: Option<String>,
    /// For which tenant.
    pub tenant: Option<String>,
}

/// What the answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueryPurpose {
    /// To read the outcome in Rust.
    ReadOutcome,
    /// To answer the status resource.
    ReadStatus,
    /// Whatever else the application tells apart, by a name of its own, such as `export`.
    Named(&'static str),
}

/// What the authoriser decides about. An unknown operation looks like any other: the type is empty, and nothing tells
/// that there is none.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What the answer is for.
    pub purpose: QueryPurpose,
    /// The operation.
    pub operation_id: OperationId,
    /// Its type.
    pub operation_type: &'a str,
    /// Who asks.
    pub current_actor: Option<&'a str>,
    /// Who accepted it.
    pub origin_actor: Option<&'a str>,
    /// For which tenant it is asked.
    pub current_tenant: Option<&'a str>,
    /// Whose it is; the same as `current_tenant`, since others are not even looked at.
    pub origin_tenant: Option<&'a str>,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The caller may know.
    Allow,
    /// To the caller there is no such operation.
    Deny,
}

/// The authoriser could not decide. It is an error, never a deny.
#[derive(Debug, thiserror::Error)]
#[error("the authoriser failed")]
pub struct AuthoriserError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// A future on its way to a decision.
pub type Deciding<'a> = Pin<Box<dyn Future<Output = Result<Decision, AuthoriserError>> + Send + 'a>>;

/// Decides who may know about which operation.
pub trait Authoriser: Send + Sync {
    /// Decides about one subject.
    fn decide<'a>(&'a self, subject: Subject<'a>) -> Deciding<'a>;
}

/// The default: nobody may know anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenyAll;

impl Authoriser for DenyAll {
    fn decide<'a>(&'a self, _subject: Subject<'a>) -> Deciding<'a> {
        Box::pin(std::future::ready(Ok(Decision::Deny)))
    }
}

/// Decides by a function that need not wait.
#[derive(Debug, Clone, Copy)]
pub struct AuthoriseBy<F>(F);

impl<F: Fn(Subject<'_>) -> Decision + Send + Sync> AuthoriseBy<F> {
    /// Decides by `decide`.
    pub const fn new(decide: F) -> Self {
        Self(decide)
    }
}

impl<F: Fn(Subject<'_>) -> Decision + Send + Sync> Authoriser for AuthoriseBy<F> {
    fn decide<'a>(&'a self, subject: Subject<'a>) -> Deciding<'a> {
        Box::pin(std::future::ready(Ok((self.0)(subject))))
    }
}
