//! Fields of a known object: what they accept, and what their errors name.

use perilune_proto::Status;
use perilune_proto::json::{Document, Faults, Field, FieldError, Flaw, Key, Kind, Limits, Malformed, Shape};
use perilune_proto::scalar::{Name, Secret, Sequence};

static INNER: Shape = Shape::new(&[Key::new("min_ms"), Key::new("max_ms")]);
static SHAPE: Shape = Shape::new(&[
    Key::new("name"),
    Key::new("queues"),
    Key::object("start", &INNER),
    Key::new("window"),
    Key::new("payload"),
    Key::new("on"),
]);

fn read<T>(
    text: &str,
    field: &'static str,
    read: impl Fn(Field<'_, '_>) -> Result<T, FieldError>,
) -> Result<T, String> {
    let document = Document::parse(text, &SHAPE, Limits::FRAME).expect(text);
    read(document.root().field(field)).map_err(|error| error.to_string())
}

#[test]
fn a_scalar_is_read_from_a_string_and_says_what_it_expects() {
    let name = |text: &str| read(text, "name", |field| field.parse::<Name>().map(|name| name.to_string()));
    assert_eq!(name(r#"{"name":"reports"}"#), Ok("reports".into()));
    assert_eq!(name(r#"{"name":"r\u0065ports"}"#), Ok("reports".into()));
    assert_eq!(name("{}"), Err("/name is missing".into()));
    for bad in [r#"{"name":null}"#, r#"{"name":7}"#, r#"{"name":"a b"}"#, r#"{"name":""}"#, r#"{"name":"\ud800"}"#] {
        assert_eq!(name(bad), Err("/name must be 1 to 128 of A-Z a-z 0-9 . _ -".into()), "{bad}");
    }
    let secret = |text: &str| read(text, "name", |field| field.parse::<Secret>().map(|secret| *secret.expose_bytes()));
    assert_eq!(secret(&format!(r#"{{"name":"\u0041{}"}}"#, "A".repeat(42))), Ok([0; 32]));
    assert!(secret(r#"{"name":"hush"}"#).expect_err("too short").contains("base64url"));
}

#[test]
fn an_integer_has_digits_only_and_stands_in_its_range() {
    let window = |value: &str| {
        read(&format!(r#"{{"window":{value}}}"#), "window", |field| field.integer(1..=4_096)).map_err(|error| {
            assert_eq!(error, "/window must be an integer from 1 to 4096", "{value}");
        })
    };
    assert_eq!((window("1"), window("4096")), (Ok(1), Ok(4_096)));
    for bad in ["0", "4097", "-1", "-0", "1.0", "1e2", "\"1\"", "null", "true", "[1]", "18446744073709551617"] {
        assert_eq!(window(bad), Err(()), "{bad}");
    }
}

#[test]
fn a_string_is_counted_in_characters() {
    let name = |text: &str| read(&format!(r#"{{"name":{text}}}"#), "name", |field| field.string(1..=3));
    assert_eq!(name(r#""éé\n""#), Ok("éé\n".into()));
    for bad in [r#""""#, r#""abcd""#, "null", r#""\udc00""#] {
        assert_eq!(name(bad), Err("/name must be a string of 1 to 3 characters".into()), "{bad}");
    }
}

#[test]
fn a_list_names_its_bad_element() {
    let queues = |text: &str| {
        read(&format!(r#"{{"queues":{text}}}"#), "queues", |field| field.list::<Name>(1..=2)).map(|names| names.len())
    };
    assert_eq!(queues(r#"[ "a" , "b" ]"#), Ok(2));
    for bad in ["[]", r#"["a","b","c"]"#, "{}", "null", r#""a""#] {
        assert_eq!(queues(bad), Err("/queues must be an array of 1 to 2 strings".into()), "{bad}");
    }
    assert_eq!(queues(r#"["a",["b"]]"#), Err("/queues/1 must be a string".into()));
    assert_eq!(queues(r#"["a b"]"#), Err("/queues/0 must be 1 to 128 of A-Z a-z 0-9 . _ -".into()));
}

#[test]
fn a_field_may_be_a_word_or_an_object() {
    let start = |text: &str| {
        let text = format!(r#"{{"start":{text}}}"#);
        let document = Document::parse(&text, &SHAPE, Limits::FRAME).expect("strict");
        let field = document.root().field("start");
        match field.kind() {
            Kind::Object => field.object().and_then(|inner| inner.field("min_ms").parse::<Sequence>()).map(|n| n.0),
            _ => field.parse::<Status>().map(|_| 0),
        }
        .map_err(|error| error.pointer)
    };
    assert_eq!(start(r#""started""#), Ok(0));
    assert_eq!(start(r#"{"min_ms":"7"}"#), Ok(7));
    assert_eq!(start(r#"{"max_ms":"7"}"#), Err("/start/min_ms".into()));
    assert_eq!(start(r#"{"min_ms":7}"#), Err("/start/min_ms".into()));
    assert_eq!(start("[]"), Err("/start".into()));
}

#[test]
fn several_bad_fields_are_told_at_once() {
    let text = r#"{"name":"a b","WINDOW":1,"on":"yes","payload":[[1]],"start":{"Min_Ms":1}}"#;
    let document = Document::parse(text, &SHAPE, Limits::FRAME).expect("strict");
    let body = document.root();
    let mut faults = Faults::of(&document);
    assert!(faults.keep(body.field("name").parse::<Name>()).is_none());
    assert!(faults.keep(body.field("on").boolean()).is_none());
    assert!(faults.keep(body.field("payload").opaque(1)).is_none());
    assert!(faults.keep(body.field("payload").opaque(2)).is_some());
    assert!(faults.keep(body.field("queues").list::<Name>(1..=2)).is_none());
    assert!(!faults.is_empty());
    let pointers: Vec<_> = faults.into_vec().into_iter().map(|fault| fault.pointer).collect();
    assert_eq!(pointers, ["/window", "/start/min_ms", "/name", "/on", "/payload", "/queues"]);
}

#[test]
fn a_value_that_is_nested_too_deep_is_named() {
    let text = format!(r#"{{"payload":{}{}}}"#, "[".repeat(64), "]".repeat(64));
    let malformed = Document::parse(&text, &SHAPE, Limits::FRAME).expect_err("too deep");
    assert_eq!(malformed, Malformed { flaw: Flaw::TooDeep, at: 74, pointer: "/payload".into() });
    let text = format!(r#"{{"start":{{"min_ms":{}{}}}}}"#, "[".repeat(64), "]".repeat(64));
    let malformed = Document::parse(&text, &SHAPE, Limits::FRAME).expect_err("too deep");
    assert_eq!(malformed.pointer, "/start/min_ms");
}

#[test]
fn nothing_that_was_read_prints() {
    let document = Document::parse(r#"{"name":"hush","payload":{"hush":1}}"#, &SHAPE, Limits::FRAME).expect("strict");
    let field = document.root().field("name");
    assert!(!format!("{document:?} {field:?}").contains("hush"));
}
