//! `--notices`: what happens, as JSON lines on stderr.

use std::time::SystemTime;

use perilune_actors::Notice;
use perilune_proto::consumer::Replay;
use perilune_proto::scalar::{EventId, Generation, SubscriptionId, Timestamp};
use serde::Serialize;

/// The order of the fields is the order they are written in.
#[derive(Serialize)]
struct Line {
    at: Option<Timestamp>,
    subscription_id: SubscriptionId,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<Generation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

/// Writes a notice's line.
pub(crate) fn write(subscription_id: SubscriptionId, notice: &Notice) {
    let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
    let at = i64::try_from(micros).ok().and_then(Timestamp::from_unix_micros);
    if let Some(line) = line(at, subscription_id, notice).and_then(|line| serde_json::to_string(&line).ok()) {
        crate::cli::stderr::offer(line);
    }
}

/// The notice's line; none for a kind that a later version adds.
fn line(at: Option<Timestamp>, subscription_id: SubscriptionId, notice: &Notice) -> Option<Line> {
    let line = |kind| Line {
        at,
        subscription_id,
        kind,
        event_id: None,
        generation: None,
        replayed: None,
        code: None,
        cause: None,
    };
    let of = |kind, event_id: &EventId, generation: &Generation| Line {
        event_id: Some(*event_id),
        generation: Some(*generation),
        ..line(kind)
    };
    Some(match notice {
        Notice::Connected => line("connected"),
        Notice::Disconnected { cause } => Line { cause: Some(cause.to_string()), ..line("disconnected") },
        Notice::HandlerFailed { event_id, generation, code } => {
            Line { code: Some(code), ..of("handler_failed", event_id, generation) }
        }
        Notice::Acknowledged { event_id, generation, replayed } => {
            Line { replayed: Some(*replayed == Replay::Replayed), ..of("acknowledged", event_id, generation) }
        }
        Notice::ProofLost { event_id, generation } => of("proof_lost", event_id, generation),
        Notice::LeaseLapsed { event_id, generation } => of("lease_lapsed", event_id, generation),
        Notice::Stopped => line("stopped"),
        _ => return None,
    })
}
