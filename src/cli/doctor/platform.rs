//! The platform: URL, TLS, clock, readiness, credential, subscription.

use std::time::{Duration, SystemTime};

use awc::http::Method;
use awc::http::header::{self, HttpDate};
use perilune_client::Client;
use perilune_proto::scalar::SubscriptionId;
use serde::Deserialize;

use super::super::api::{Api, ApiError, Call, describe};
use super::super::connect::ConnectArgs;
use super::super::exit::Failure;
use super::finding::Finding;

/// How long the platform has to answer one question.
const PATIENCE: Duration = Duration::from_secs(8);
/// Clocks further apart than this confuse whoever compares logs, and webhook receivers that check timestamps.
const SKEW_MAX: Duration = Duration::from_secs(30);

/// Looks at the platform, as far as each finding lets it.
pub(super) async fn examine(connect: &ConnectArgs, subscription: Option<SubscriptionId>) -> Vec<Finding> {
    let client = match connect.client() {
        Ok(client) => client,
        Err(failure) => {
            let found = match failure {
                Failure::Usage(sentence) => sentence,
                other => format!("{other:?}"),
            };
            return vec![Finding::failed("settings", found, "mend the setting that it names")];
        }
    };
    let mut findings = vec![Finding::ok("settings", format!("{} with a credential", connect.url))];
    if !reach(&client, connect, &mut findings).await {
        return findings;
    }
    let Ok(api) = Api::with(client, connect.url.to_string()).await else { return findings };
    if credential(&api, &mut findings).await {
        findings.push(match subscription {
            Some(id) => self::subscription(&api, id).await,
            None => Finding::skipped("subscription", "no --subscription was given"),
        });
    }
    findings
}

/// Whether the platform can be spoken to at all.
async fn reach(client: &Client, connect: &ConnectArgs, findings: &mut Vec<Finding>) -> bool {
    let encrypted = client.events_url().starts_with("wss:");
    let http = match client.http().await {
        Ok(http) => http,
        Err(error) => {
            findings.push(Finding::failed("tls", error.to_string(), "check --ca-file, --cert and --key"));
            return false;
        }
    };
    let asked = SystemTime::now();
    let answer = http.get(client.http_url("/healthz")).timeout(PATIENCE).send().await;
    let response = match answer {
        Ok(response) => response,
        Err(error) => {
            let advice = if encrypted {
                "check that the server runs there and speaks TLS, and that --ca-file has its authority"
            } else {
                "check that the server runs there: perilune serve"
            };
            findings.push(Finding::failed("url", describe(&error), advice));
            return false;
        }
    };
    findings.push(Finding::ok("url", format!("{} answers", connect.url)));
    findings.push(if encrypted {
        Finding::ok("tls", "the platform's certificate is trusted")
    } else {
        Finding::skipped("tls", "the URL is plaintext")
    });
    let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok()?.parse::<HttpDate>().ok());
    findings.push(clock(asked, date.map(SystemTime::from)));
    findings.push(ready(client, &http).await);
    true
}

/// Compares clocks. A header's date has whole seconds.
fn clock(asked: SystemTime, date: Option<SystemTime>) -> Finding {
    let Some(date) = date else { return Finding::skipped("clock", "the platform does not tell its time") };
    let skew = asked.duration_since(date).unwrap_or_else(|ahead| ahead.duration());
    let found = format!("{} s between here and the platform", skew.as_secs());
    if skew <= SKEW_MAX {
        Finding::ok("clock", found)
    } else {
        Finding::warning("clock", found, "set both clocks by NTP; leases don't depend on it, signatures and logs do")
    }
}

async fn ready(client: &Client, http: &awc::Client) -> Finding {
    match http.get(client.http_url("/readyz")).timeout(PATIENCE).send().await {
        Ok(response) if response.status().is_success() => Finding::ok("readiness", "the platform's store answers"),
        Ok(response) => Finding::failed(
            "readiness",
            format!("the platform answers {}", response.status().as_u16()),
            "look at the server's log and its database",
        ),
        Err(error) => Finding::failed("readiness", describe(&error), "look at the server's log"),
    }
}

/// Whether the credential may manage subscriptions.
async fn credential(api: &Api, findings: &mut Vec<Finding>) -> bool {
    let call = Call { method: Method::GET, path: "/v1/subscriptions?limit=1", body: None, idempotency_key: None };
    let (finding, goes_on) = match api.call(call).await {
        Ok(_) => (Finding::ok("credential", "known, and may manage subscriptions"), true),
        Err(ApiError::Problem(problem)) if problem.status == 401 => {
            let advice = "make one on the server's host: perilune credential create";
            (Finding::failed("credential", "unknown, expired or revoked", advice), false)
        }
        Err(ApiError::Problem(problem)) if problem.status == 403 => {
            let found = "known, and may not manage subscriptions";
            (
                Finding::warning("credential", found, "for the subscription's figures use one with the scope manage"),
                false,
            )
        }
        Err(ApiError::Problem(problem)) => {
            (Finding::failed("credential", problem.code, "look at the server's log"), false)
        }
        Err(ApiError::Local(found) | ApiError::Unreachable(found)) => {
            (Finding::failed("credential", found, "try again"), false)
        }
    };
    findings.push(finding);
    goes_on
}

#[derive(Deserialize)]
struct Figures {
    enabled: bool,
    blocked: bool,
    lag: u64,
    expired: u64,
    sessions: u64,
}

async fn subscription(api: &Api, id: SubscriptionId) -> Finding {
    const CHECK: &str = "subscription";
    let figures: Figures = match api.get(&format!("/v1/subscriptions/{id}")).await {
        Ok(figures) => figures,
        Err(Failure::Permanent { code, .. }) => {
            return Finding::failed(CHECK, code, "list what there is: perilune subscription list");
        }
        Err(_) => return Finding::failed(CHECK, "the platform did not tell", "try again"),
    };
    let Figures { enabled, blocked, lag, expired, sessions } = figures;
    let found = format!("lag {lag}, expired {expired}, sessions {sessions}");
    if blocked {
        let advice = format!("perilune delivery list --subscription {id} --state expired, then delivery add-budget");
        Finding::failed(CHECK, format!("blocked by EXPIRED deliveries: {found}"), advice)
    } else if !enabled {
        Finding::warning(CHECK, format!("paused: {found}"), format!("perilune subscription resume {id}"))
    } else if expired > 0 {
        let advice = format!("perilune delivery add-budget --subscription {id} --all --add 10");
        Finding::warning(CHECK, found, advice)
    } else if sessions == 0 && lag > 0 {
        Finding::warning(CHECK, found, "events wait and nobody consumes: start a consumer")
    } else {
        Finding::ok(CHECK, found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn clocks_half_a_minute_apart_are_worth_a_word() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        assert_eq!(clock(now, Some(now + SKEW_MAX)).state, State::Ok);
        assert_eq!(clock(now, Some(now - SKEW_MAX)).state, State::Ok);
        assert_eq!(clock(now, Some(now - SKEW_MAX * 2)).state, State::Warning);
        assert_eq!(clock(now, Some(now + SKEW_MAX * 2)).state, State::Warning);
        assert_eq!(clock(now, None).state, State::Skipped);
    }
}
