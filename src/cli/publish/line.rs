//! One line of NDJSON, made complete without touching what it says.

use perilune_proto::json::{Document, Key, Kind, Limits, Malformed, Shape, push_string};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::Defaults;

/// Most bytes of a line: what fits an event, and room for its other fields.
pub(super) const LINE_BYTES_MAX: usize = 600_000;

static LINE: Shape = Shape::new(&[
    Key::new("queue"),
    Key::new("task_id"),
    Key::new("operation"),
    Key::new("status"),
    Key::new("idempotency_key"),
]);

/// A report that is ready to be sent.
#[derive(Debug)]
pub(super) struct Line {
    /// Its number in the input, from 1.
    pub(super) number: u64,
    /// One JSON object without line breaks. It may be business data.
    pub(super) text: Zeroizing<String>,
}

/// Why a line is no report.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadLine {
    #[error("not one JSON object: {0}")]
    Malformed(#[from] Malformed),
    #[error("not UTF-8")]
    NotUtf8,
    #[error("longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
}

impl Line {
    /// Reads a line and fills in what it leaves out. What it says stays byte for byte.
    ///
    /// An idempotency key, and a task for a line that names none, are made of the line's number and
    /// content, so that the same line of the same file always gets the same ones.
    pub(super) fn complete(number: u64, bytes: &[u8], defaults: &Defaults) -> Result<Self, BadLine> {
        let text = std::str::from_utf8(bytes).map_err(|_| BadLine::NotUtf8)?.trim_ascii();
        let limits = Limits { bytes: LINE_BYTES_MAX, ..Limits::FRAME };
        let document = Document::parse(text, &LINE, limits)?;
        let lacks = |name: &'static str| document.root().field(name).kind() == Kind::Absent;
        let mut added = Members::default();
        if let Some(queue) = defaults.queue.as_ref().filter(|_| lacks("queue")) {
            added.push("queue", queue.as_str());
        }
        if let Some(operation) = defaults.operation.as_ref().filter(|_| lacks("operation")) {
            added.push("operation", operation.as_str());
        }
        if let Some(status) = defaults.status.filter(|_| lacks("status")) {
            added.push("status", status.as_str());
        }
        let fingerprint = fingerprint(number, &added.0, text);
        if lacks("task_id") {
            added.push("task_id", &fingerprint[..32]);
        }
        if lacks("idempotency_key") {
            added.push("idempotency_key", &format!("ndjson-{}", &fingerprint[32..]));
        }
        Ok(Self { number, text: added.insert_into(text) })
    }
}

/// 64 hexadecimal digits that name this line of this input.
fn fingerprint(number: u64, added: &str, text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(number.to_be_bytes());
    hash.update((added.len() as u64).to_be_bytes());
    hash.update(added);
    hash.update(text);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Members to be put at the front of an object.
#[derive(Default)]
struct Members(String);

impl Members {
    fn push(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        push_string(&mut self.0, name);
        self.0.push(':');
        push_string(&mut self.0, value);
    }

    /// The object with the members in front of its own.
    fn insert_into(&self, object: &str) -> Zeroizing<String> {
        let inside = object.strip_prefix('{').unwrap_or(object);
        let comma = if self.0.is_empty() || inside.trim_ascii_start().starts_with('}') { "" } else { "," };
        let mut whole = Zeroizing::new(String::with_capacity(object.len() + self.0.len() + 1));
        whole.push('{');
        whole.push_str(&self.0);
        whole.push_str(comma);
        whole.push_str(inside);
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(number: u64, text: &str, defaults: &Defaults) -> String {
        Line::complete(number, text.as_bytes(), defaults).expect("a good line").text.to_string()
    }

    fn defaults() -> Defaults {
        Defaults { queue: "reports".parse().ok(), operation: "Op".parse().ok(), status: "failed".parse().ok() }
    }

    #[test]
    fn a_complete_line_stays_as_it_is() {
        let text = r#"{ "queue":"q","task_id":"t","operation":"o","status":"s", "idempotency_key":"k","payload":[1e400, "é"]}"#;
        assert_eq!(complete(1, text, &defaults()), text);
    }

    #[test]
    fn what_a_line_leaves_out_goes_in_front_of_it() {
        let line = complete(3, r#"{"payload":9007199254740993,"status":"succeeded"}"#, &defaults());
        assert!(line.starts_with(r#"{"queue":"reports","operation":"Op","task_id":""#), "{line}");
        assert!(line.ends_with(r#"","payload":9007199254740993,"status":"succeeded"}"#), "{line}");
        for text in ["{}", "{ }"] {
            let line = complete(3, text, &defaults());
            assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        }
    }

    #[test]
    fn key_and_task_hang_on_number_content_and_defaults_alone() {
        let text = r#"{"payload":1}"#;
        let line = complete(3, text, &defaults());
        assert_eq!(complete(3, text, &defaults()), line);
        let others = [
            complete(4, text, &defaults()),
            complete(3, r#"{"payload":2}"#, &defaults()),
            complete(3, text, &Defaults { queue: "invoices".parse().ok(), ..defaults() }),
        ];
        for other in others {
            let key = |line: &str| line.split("idempotency_key\":\"").nth(1).map(|rest| rest[..39].to_owned());
            assert_ne!(key(&other), key(&line));
        }
    }

    #[test]
    fn a_line_that_is_no_strict_object_is_refused() {
        for bad in ["", "1", "{\"a\":1,\"a\":2}", "{\"a\":1}{}", "{\"a\":01}"] {
            assert!(matches!(Line::complete(1, bad.as_bytes(), &defaults()), Err(BadLine::Malformed(_))), "{bad}");
        }
        assert!(matches!(Line::complete(1, b"{\"a\":\"\xff\"}", &defaults()), Err(BadLine::NotUtf8)));
    }
}
