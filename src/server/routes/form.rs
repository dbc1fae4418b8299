//! What a client says about a subscription: its settings, a place in the log.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use perilune_proto::backoff::Backoff;
use perilune_proto::event::Status;
use perilune_proto::json::{Faults, Field, FieldError, Key, Kind, Object, Shape};
use perilune_proto::limits::{
    BUDGET_DEFAULT, REDELIVERY_BACKOFF_MAX, REDELIVERY_BACKOFF_MIN, SUBSCRIPTION_NAME_CHARS, WINDOW, WINDOW_DEFAULT,
};
use perilune_proto::scalar::Name;

use crate::server::problem::Problem;
use crate::server::request::body::{object, refuse_faults};
use crate::server::store::{CredentialId, NewSubscription, Start};

/// Generations that a subscription's deliveries may have.
pub(crate) const BUDGET: RangeInclusive<u64> = 1..=1_000_000;
/// Milliseconds that a backoff may name: up to a day.
pub(crate) const BACKOFF_MS: RangeInclusive<u64> = 1..=86_400_000;
/// Queues or operations that a subscription may name.
pub(crate) const NAMES_MAX: usize = 1_000;
/// Statuses that a subscription may name; repeating one changes nothing.
pub(crate) const STATUSES_MAX: usize = 32;

static PLACE: Shape = Shape::new(&[Key::new("sequence")]);
static BACKOFF: Shape = Shape::new(&[Key::new("min_ms"), Key::new("max_ms")]);
static SETTINGS: Shape = Shape::new(&[
    Key::new("name"),
    Key::new("queues"),
    Key::new("statuses"),
    Key::new("operations"),
    Key::object("start", &PLACE),
    Key::new("window"),
    Key::new("budget"),
    Key::object("backoff", &BACKOFF),
]);
static SEEK: Shape = Shape::new(&[Key::object("to", &PLACE)]);

/// Reads the settings of a new subscription.
///
/// # Errors
/// 400, or 422 with every bad field.
pub(super) fn settings(text: &str, credential_id: CredentialId) -> Result<NewSubscription, Problem> {
    let document = object(text, &SETTINGS)?;
    let mut faults = Faults::of(&document);
    let read = read_settings(document.root(), credential_id, &mut faults);
    refuse_faults(faults)?;
    read.ok_or_else(unread)
}

fn read_settings(root: Object<'_, '_>, credential_id: CredentialId, faults: &mut Faults) -> Option<NewSubscription> {
    let name = faults.keep(root.field("name").string(SUBSCRIPTION_NAME_CHARS));
    let queues = faults.keep(root.field("queues").list::<Name>(1..=NAMES_MAX));
    let statuses = faults.keep(optional(root.field("statuses"), |field| field.list::<Status>(0..=STATUSES_MAX)));
    let operations = faults.keep(optional(root.field("operations"), |field| field.list::<Name>(0..=NAMES_MAX)));
    let start = faults.keep(place(root.field("start")));
    let window = faults.keep(optional(root.field("window"), |field| field.integer(wide(&WINDOW))));
    let budget = faults.keep(optional(root.field("budget"), |field| field.integer(BUDGET)));
    let backoff = backoff(root.field("backoff"), faults);
    Some(NewSubscription {
        credential_id,
        name: name?,
        queues: queues?.into_iter().collect(),
        statuses: statuses?.unwrap_or_default().into_iter().collect(),
        operations: operations?.unwrap_or_default().into_iter().collect::<BTreeSet<_>>(),
        start: start?,
        window: narrow(window?, WINDOW_DEFAULT),
        budget: narrow(budget?, BUDGET_DEFAULT),
        backoff: backoff?,
    })
}

/// Reads where to seek to.
///
/// # Errors
/// 400 or 422.
pub(super) fn seek(text: &str) -> Result<Start, Problem> {
    let document = object(text, &SEEK)?;
    let mut faults = Faults::of(&document);
    let to = faults.keep(place(document.root().field("to")));
    refuse_faults(faults)?;
    to.ok_or_else(unread)
}

/// Reads how much budget to add.
///
/// # Errors
/// 400 or 422.
pub(super) fn budget(text: &str) -> Result<u32, Problem> {
    static ADD: Shape = Shape::new(&[Key::new("add")]);
    let document = object(text, &ADD)?;
    let mut faults = Faults::of(&document);
    let add = faults.keep(document.root().field("add").integer(wide(&perilune_proto::limits::BUDGET_ADD)));
    refuse_faults(faults)?;
    add.and_then(|add| u32::try_from(add).ok()).ok_or_else(unread)
}

/// `"latest"`, `"earliest"` or `{"sequence": "<u64>"}`.
fn place(field: Field<'_, '_>) -> Result<Start, FieldError> {
    const EXPECTED: &str = r#""latest", "earliest" or an object with a sequence"#;
    match field.kind() {
        Kind::Object => field.object()?.field("sequence").parse().map(Start::Sequence),
        Kind::String => match field.string(0..=16).as_deref() {
            Ok("latest") => Ok(Start::Latest),
            Ok("earliest") => Ok(Start::Earliest),
            _ => Err(field.must_be(EXPECTED)),
        },
        // A missing field is said to be missing.
        Kind::Absent => field.object().map(|_| Start::Latest),
        _ => Err(field.must_be(EXPECTED)),
    }
}

/// How long lapsed deliveries wait where a client says nothing.
const DEFAULT: Backoff = Backoff::new(REDELIVERY_BACKOFF_MIN, REDELIVERY_BACKOFF_MAX);

fn backoff(field: Field<'_, '_>, faults: &mut Faults) -> Option<Backoff> {
    let Some(field) = field.if_present() else { return Some(DEFAULT) };
    let object = faults.keep(field.object())?;
    let min = faults.keep(object.field("min_ms").integer(BACKOFF_MS));
    let max = faults.keep(object.field("max_ms").integer(BACKOFF_MS));
    let (min, max) = (min?, max?);
    if max < min {
        faults.push(object.field("max_ms").must_be("at least min_ms"));
        return None;
    }
    Some(Backoff::new(Duration::from_millis(min), Duration::from_millis(max)))
}

fn optional<'d, 'a, T>(
    field: Field<'d, 'a>,
    read: impl FnOnce(Field<'d, 'a>) -> Result<T, FieldError>,
) -> Result<Option<T>, FieldError> {
    field.if_present().map(read).transpose()
}

fn wide(range: &RangeInclusive<u32>) -> RangeInclusive<u64> {
    u64::from(*range.start())..=u64::from(*range.end())
}

/// A number whose range was checked, or the default where there is none.
fn narrow(number: Option<u64>, default: u32) -> u32 {
    number.map_or(default, |number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// A field that is neither good nor named as bad: can't be, and must not end in a panic.
fn unread() -> Problem {
    Problem::new(crate::server::problem::Code::Internal, "the settings could not be read")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const WHO: CredentialId = CredentialId::from_u128(1);

    fn pointers(problem: &Problem) -> Vec<String> {
        let document = problem.to_json();
        let errors = document["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().filter_map(|error| error["pointer"].as_str().map(str::to_owned)).collect()
    }

    #[test]
    fn what_is_left_out_has_the_contract_s_defaults() {
        let read = settings(r#"{"name":"invoices","queues":["reports"],"start":"latest"}"#, WHO).expect("valid");
        assert_eq!((read.window, read.budget, read.start), (256, 10, Start::Latest));
        assert_eq!(read.backoff, Backoff::new(Duration::from_secs(1), Duration::from_secs(300)));
        assert!(read.statuses.is_empty() && read.operations.is_empty());
    }

    #[test]
    fn every_bad_field_is_named_at_once() {
        let text = r#"{"name":"","queues":[],"statuses":["done"],"start":"now","window":0,"budget":1.5,"backoff":{"min_ms":5}}"#;
        let problem = settings(text, WHO).expect_err("bad fields");
        let expected = ["/name", "/queues", "/statuses/0", "/start", "/window", "/budget", "/backoff/max_ms"];
        assert_eq!(pointers(&problem), expected);
        assert_eq!(problem.to_json()["status"], Value::from(422));
    }

    #[test]
    fn a_place_is_one_of_three_things() {
        assert_eq!(seek(r#"{"to":"earliest"}"#), Ok(Start::Earliest));
        let sequence = perilune_proto::scalar::Sequence(18_446_744_073_709_551_615);
        assert_eq!(seek(r#"{"to":{"sequence":"18446744073709551615"}}"#), Ok(Start::Sequence(sequence)));
        for (bad, pointer) in [
            (r#"{}"#, "/to"),
            (r#"{"to":null}"#, "/to"),
            (r#"{"to":"now"}"#, "/to"),
            (r#"{"to":{}}"#, "/to/sequence"),
            (r#"{"to":{"sequence":5}}"#, "/to/sequence"),
            (r#"{"To":"latest"}"#, "/to"),
        ] {
            assert_eq!(pointers(&seek(bad).expect_err(bad))[0], pointer, "{bad}");
        }
    }

    #[test]
    fn a_backoff_s_end_is_not_before_its_beginning() {
        let text = r#"{"name":"a","queues":["q"],"start":"latest","backoff":{"min_ms":5,"max_ms":4}}"#;
        assert_eq!(pointers(&settings(text, WHO).expect_err("max before min")), ["/backoff/max_ms"]);
    }
}
