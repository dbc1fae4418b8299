//! `/v1/subscriptions/{id}/deliveries`: the open deliveries, the acknowledged ones that are still known, and more budget for EXPIRED ones.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use actix_web::web::{self, Data, Payload};
use actix_web::{HttpRequest, HttpResponse, Resource};

use super::form::budget as read_budget;
use super::subscription::{answer, key};
use super::view::{DeliveryView, PageView, text};
use super::{after, id, json, read, resource};
use crate::server::auth::authorize;
use crate::server::problem::Problem;
use crate::server::request::body::json_text;
use crate::server::request::query::Parameters;
use crate::server::state::State;
use crate::server::store::{AddBudget, DeliveryState, ListDeliveries, Scope};

pub(super) fn resources() -> [Resource; 3] {
    [
        resource("/v1/subscriptions/{id}/deliveries", "GET, HEAD").route(read().to(list)),
        resource("/v1/subscriptions/{id}/deliveries:budget", "POST").route(web::post().to(budget_of_all)),
        resource("/v1/subscriptions/{id}/deliveries/{delivery_id}/budget", "POST").route(web::post().to(budget_of_one)),
    ]
}

async fn list(state: Data<State>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Manage).await?;
    let mut parameters = Parameters::read(&request, &["state", "after", "limit"])?;
    let states = parameters
        .parsed("state", "must be a list of ready, leased, expired, acknowledged", states)
        .unwrap_or_default();
    let limit = parameters.integer("limit", 1..=1_000, 100);
    let after = after(&mut parameters);
    parameters.finish()?;
    let list = ListDeliveries { key: key(&caller, &request)?, states, after, limit };
    let page = state.store.deliveries(list).await.map_err(|error| state.problem(&error))?;
    let items: Vec<DeliveryView> = page.items.into_iter().map(Into::into).collect();
    Ok(json(StatusCode::OK, text(&PageView { items, next: page.next.map(|next| next.to_string()) })?))
}

async fn budget_of_one(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Manage).await?;
    Parameters::none(&request)?;
    let (key, delivery_id) = (key(&caller, &request)?, id(&request, "delivery_id")?);
    let add = read_budget(&json_text(&request, payload).await?)?;
    let record = state.store.add_budget(AddBudget { key, delivery_id, add }).await;
    let record = record.map_err(|error| state.problem(&error))?;
    Ok(json(StatusCode::OK, text(&DeliveryView::from(record))?))
}

/// Answers with the subscription, whose figures show what became ready.
async fn budget_of_all(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Manage).await?;
    Parameters::none(&request)?;
    let key = key(&caller, &request)?;
    let add = read_budget(&json_text(&request, payload).await?)?;
    state.store.add_budget_to_expired(key, add).await.map_err(|error| state.problem(&error))?;
    let record = state.store.subscription(key).await;
    answer(&state, record)
}

/// `ready,leased,expired,acknowledged`: at least one of them.
fn states(text: &str) -> Option<BTreeSet<DeliveryState>> {
    let known = |name| DeliveryState::ALL.into_iter().find(|state| state.as_str() == name);
    text.split(',').map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_a_list_of_known_names() {
        assert_eq!(states("expired,ready"), Some(BTreeSet::from([DeliveryState::Ready, DeliveryState::Expired])));
        for bad in ["", "ready,", "READY", "ready, leased", "done"] {
            assert_eq!(states(bad), None, "{bad}");
        }
    }
}
