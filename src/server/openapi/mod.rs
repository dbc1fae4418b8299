//! The OpenAPI 3.1 document, as data: true to the routes, and built from the same limits.
//!
//! - [`schema`]: the scalars and resources.
//! - [`operation`]: what every operation has in common: credential, problems, pages.
//! - [`report`], [`subscription`], [`delivery`], [`operate`]: the paths, a file a resource.

mod delivery;
mod operate;
mod operation;
mod report;
mod schema;
mod subscription;

use serde_json::{Map, Value, json};

use super::config::ServerConfig;

/// Paths with their operations.
type Paths = Vec<(&'static str, Value)>;

/// The document of a server that is set up like this.
pub(crate) fn document(config: &ServerConfig) -> Value {
    let metrics = if config.metrics_listen.is_some() { Vec::new() } else { operate::metrics() };
    let paths: Map<String, Value> =
        [report::paths(config), subscription::paths(), delivery::paths(), operate::paths(), metrics]
            .into_iter()
            .flatten()
            .map(|(path, operations)| (path.to_owned(), operations))
            .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Perilune",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Durable result events: reported, leased, acknowledged with a proof.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{"credential": []}],
        "tags": [
            {"name": "reports", "description": "Results of tasks, and the tasks themselves."},
            {"name": "subscriptions", "description": "What is read off the log for whom."},
            {"name": "deliveries", "description": "Events on their way to a subscription."},
            {"name": "operating", "description": "Health, metrics and this document."},
        ],
        "paths": paths,
        "components": {
            "schemas": schema::schemas(),
            "parameters": operation::parameters(),
            "responses": operation::responses(),
            "headers": operation::headers(),
            "securitySchemes": {
                "credential": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A credential that `perilune credential create` has shown.",
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built() -> Value {
        document(&ServerConfig::builder().build().expect("the defaults are in range"))
    }

    /// Every `$ref` of the document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(key, member)| match member {
                Value::String(target) if key == "$ref" => found.push(target.clone()),
                member => references(member, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = built();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for target in found {
            let pointer = target.strip_prefix('#').expect("a reference into this document");
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
    }

    #[test]
    fn every_operation_has_an_id_of_its_own_and_declares_what_can_go_wrong() {
        let document = built();
        let mut ids = std::collections::BTreeSet::new();
        for (path, operations) in document["paths"].as_object().expect("paths") {
            for (method, operation) in
                operations.as_object().expect("operations").iter().filter(|(key, _)| *key != "parameters")
            {
                let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no id"));
                assert!(ids.insert(id.to_owned()), "{id} twice");
                let answers = operation["responses"].as_object().expect("responses");
                if path.starts_with("/v1/") {
                    for status in ["401", "403", "429", "503"] {
                        assert!(answers.contains_key(status), "{method} {path} lacks {status}");
                    }
                }
            }
        }
    }

    #[test]
    fn metrics_are_declared_only_where_they_are_served() {
        let elsewhere = ServerConfig::builder().metrics_listen("127.0.0.1:0".parse().expect("an address"));
        let document = document(&elsewhere.build().expect("in range"));
        assert!(document["paths"].get("/metrics").is_none());
        assert!(built()["paths"].get("/metrics").is_some());
    }
}
