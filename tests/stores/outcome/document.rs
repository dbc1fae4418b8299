//! What an application adds to its own API: the acceptance answer and the OpenAPI document.

use actix_web::body::to_bytes;
use actix_web::http::header::{CACHE_CONTROL, LOCATION, RETRY_AFTER};
use perilune::outcome::lifecycle::OperationState;
use perilune::outcome::status::{acceptance_response, merge_openapi, openapi_document};
use perilune::outcome::{AcceptedOperation, OperationId};
use serde_json::{Value, json};

#[test]
fn an_acceptance_says_where_and_when_to_ask() {
    let accepted_at = "2026-01-02T03:04:05Z".parse().expect("a time");
    let accepted = AcceptedOperation { operation_id: OperationId::from_u128(7), accepted_at };
    for base in ["/api", "/api/"] {
        let response = acceptance_response(base, &accepted);
        assert_eq!(response.status().as_u16(), 202);
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!(header(LOCATION), Some("/api/operations/00000000000000000000000000000007"));
        assert_eq!((header(RETRY_AFTER), header(CACHE_CONTROL)), (Some("1"), Some("private, no-store")));
        let body = actix_rt::System::new().block_on(to_bytes(response.into_body())).expect("a body");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let expected = json!({
            "operationId": "00000000000000000000000000000007", "acceptedAt": "2026-01-02T03:04:05Z"
        });
        assert_eq!(body, expected);
    }
}

#[test]
fn a_document_keeps_its_own_and_gains_the_resource() {
    let mut own = json!({
        "openapi": "3.1.0",
        "info": { "title": "Shop", "version": "1" },
        "paths": { "/reports": { "post": { "responses": { "202": { "$ref": "#/components/responses/OperationAccepted" } } } } },
        "components": { "schemas": { "Report": { "type": "object" }, "OperationAccepted": { "title": "mine" } } }
    });
    let before = own.clone();
    merge_openapi(&mut own, "/api/");
    assert_eq!(own["info"], before["info"]);
    assert_eq!(own["paths"]["/reports"], before["paths"]["/reports"]);
    assert_eq!(own["components"]["schemas"]["Report"], before["components"]["schemas"]["Report"]);
    assert_eq!(own["components"]["schemas"]["OperationAccepted"], json!({ "title": "mine" }), "it stays as it is");
    let get = &own["paths"]["/api/operations/{id}"]["get"];
    let statuses: Vec<_> = get["responses"].as_object().expect("an object").keys().collect();
    assert_eq!(statuses, ["200", "401", "404", "410", "500"]);
    let mut again = own.clone();
    merge_openapi(&mut again, "/api");
    assert_eq!(again, own, "merging twice changes nothing");
}

/// Every `$ref` below a value.
fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = openapi_document("");
    let found = references(&document);
    assert_eq!(found.len(), 2, "{found:?}");
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    let states = document["components"]["schemas"]["OperationStatus"]["oneOf"].as_array().expect("alternatives");
    assert_eq!(states.len(), OperationState::ALL.len());
}
