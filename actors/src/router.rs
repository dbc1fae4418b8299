//! A router: one handler an operation and status, with payload and result as types.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use perilune_proto::scalar::Name;
use perilune_proto::{ResultEvent, Status};
use serde::de::DeserializeOwned;

use crate::handler_pool::{EventContext, EventHandler, HandlerResult};

/// An event whose payload and result have been read as types.
///
/// Use [`serde::de::IgnoredAny`] for what is of no interest, `Option<T>` for what may be `null`.
#[derive(Clone)]
pub struct Typed<P, R> {
    /// The task's input.
    pub payload: P,
    /// The task's result.
    pub result: R,
    /// The whole event.
    pub event: Arc<ResultEvent>,
    /// Generation, lease and cancellation token.
    pub context: EventContext,
}

impl<P, R> fmt::Debug for Typed<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Payload and result are business data, whatever their types print.
        f.debug_struct("Typed").field("event", &self.event).field("context", &self.context).finish_non_exhaustive()
    }
}

type Route = Box<dyn Fn(Arc<ResultEvent>, EventContext) -> Pin<Box<dyn Future<Output = HandlerResult>>> + Send + Sync>;

/// Which statuses a route takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statuses {
    One(Status),
    Any,
}

/// Hands each event to the handler of its operation and status; what has none goes to the fallback, since a platform
/// may learn new kinds at any time.
///
/// ```
/// use perilune_actors::proto::Status;
/// use perilune_actors::{Router, Typed};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Order {
///     id: u64,
/// }
///
/// #[derive(Deserialize)]
/// struct Invoice {
///     number: String,
/// }
///
/// let router = Router::with_fallback(|event, _context| async move {
///     println!("nobody waits for {} {}", event.snapshot.operation, event.event_type());
///     Ok(())
/// })
/// .on("CreateInvoice", Status::Succeeded, |typed: Typed<Order, Invoice>| async move {
///     println!("order {} has invoice {}", typed.payload.id, typed.result.number);
///     Ok(())
/// })
/// .build()?;
/// # Ok::<(), perilune_actors::RouteError>(())
/// ```
pub struct Router {
    routes: BTreeMap<Name, Vec<(Statuses, Route)>>,
    fallback: Route,
}

/// Collects a [`Router`]'s routes.
#[must_use]
pub struct RouterBuilder {
    routes: Vec<(String, Statuses, Route)>,
    fallback: Route,
}

/// A route that can't be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No operation can have this name.
    #[error("operation {0:?} must be 1 to 128 of A-Z a-z 0-9 . _ -")]
    Operation(String),
    /// Two routes take the same events.
    #[error("two routes for operation {0:?} and the same status")]
    Twice(String),
}

impl Router {
    /// Begins with the handler of whatever has no route of its own.
    pub fn with_fallback<F, Fut>(fallback: F) -> RouterBuilder
    where
        F: Fn(Arc<ResultEvent>, EventContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + 'static,
    {
        let fallback: Route = Box::new(move |event, context| Box::pin(fallback(event, context)));
        RouterBuilder { routes: Vec::new(), fallback }
    }

    fn route(&self, event: &ResultEvent) -> &Route {
        let routes = self.routes.get(&event.snapshot.operation).map_or(&[][..], Vec::as_slice);
        let of = |wanted: Statuses| routes.iter().find(|(statuses, _)| *statuses == wanted).map(|(_, route)| route);
        of(Statuses::One(event.snapshot.status)).or_else(|| of(Statuses::Any)).unwrap_or(&self.fallback)
    }
}

impl RouterBuilder {
    /// Hands events of this operation and status to a handler, with payload and result read as its types.
    ///
    /// JSON that does not fit them fails the event: it is not acknowledged, and spends its budget where it is seen.
    pub fn on<P, R, F, Fut>(self, operation: impl Into<String>, status: Status, handler: F) -> Self
    where
        P: DeserializeOwned + 'static,
        R: DeserializeOwned + 'static,
        F: Fn(Typed<P, R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + 'static,
    {
        self.add(operation.into(), Statuses::One(status), handler)
    }

    /// Hands events of this operation to a handler, whatever their status, unless [`Self::on`] names it.
    pub fn on_any_status<P, R, F, Fut>(self, operation: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + 'static,
        R: DeserializeOwned + 'static,
        F: Fn(Typed<P, R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + 'static,
    {
        self.add(operation.into(), Statuses::Any, handler)
    }

    fn add<P, R, F, Fut>(mut self, operation: String, statuses: Statuses, handler: F) -> Self
    where
        P: DeserializeOwned + 'static,
        R: DeserializeOwned + 'static,
        F: Fn(Typed<P, R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + 'static,
    {
        let route: Route = Box::new(move |event, context| match typed(event, context) {
            Ok(typed) => Box::pin(handler(typed)),
            Err(error) => Box::pin(std::future::ready(Err(error.into()))),
        });
        self.routes.push((operation, statuses, route));
        self
    }

    /// Checks the routes.
    ///
    /// # Errors
    /// [`RouteError`] names an operation that can't be one, or that has two handlers for the same status.
    pub fn build(self) -> Result<Router, RouteError> {
        let mut routes: BTreeMap<Name, Vec<(Statuses, Route)>> = BTreeMap::new();
        for (operation, statuses, route) in self.routes {
            let Ok(name) = operation.parse::<Name>() else {
                return Err(RouteError::Operation(operation));
            };
            let of_operation = routes.entry(name).or_default();
            if of_operation.iter().any(|(taken, _)| *taken == statuses) {
                return Err(RouteError::Twice(operation));
            }
            of_operation.push((statuses, route));
        }
        Ok(Router { routes, fallback: self.fallback })
    }
}

fn typed<P: DeserializeOwned, R: DeserializeOwned>(
    event: Arc<ResultEvent>,
    context: EventContext,
) -> Result<Typed<P, R>, serde_json::Error> {
    let payload = serde_json::from_str(event.snapshot.payload.as_str())?;
    let result = serde_json::from_str(event.snapshot.result.as_str())?;
    Ok(Typed { payload, result, event, context })
}

impl EventHandler for Router {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let route = self.route(&event);
        route(event, context).await
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("operations", &self.routes.keys()).finish_non_exhaustive()
    }
}

impl fmt::Debug for RouterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterBuilder").field("routes", &self.routes.len()).finish_non_exhaustive()
    }
}
