//! The strict reader against an oracle on top of `serde_json`: whatever `serde_json` refuses is
//! refused, whatever is accepted means the same, and nothing else is refused but for a known flaw.

mod oracle;

use perilune_proto::json::{Document, Flaw, Key, Kind, Limits, Malformed, RawJson, Shape};
use proptest::prelude::*;

static INNER: Shape = Shape::new(&[Key::new("a"), Key::new("b")]);
static SHAPE: Shape = Shape::new(&[Key::new("a"), Key::object("c", &INNER), Key::new("key")]);

/// Texts that are JSON, mostly strict, with all the freedom that JSON leaves.
fn json() -> impl Strategy<Value = String> {
    let space = prop_oneof![6 => Just(""), 1 => Just(" "), 1 => Just("\t\r\n ")];
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,4})?",
        text(),
    ];
    let spaced = (space.clone(), scalar, space.clone()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
    spaced.prop_recursive(6, 60, 6, move |inner| {
        let array = prop::collection::vec(inner.clone(), 0..6).prop_map(|elements| format!("[{}]", elements.join(",")));
        let member =
            (space.clone(), key(), space.clone(), inner).prop_map(|(a, key, b, value)| format!("{a}{key}{b}:{value}"));
        let object = prop::collection::vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(",")));
        (space.clone(), prop_oneof![array, object], space.clone()).prop_map(|(a, value, b)| format!("{a}{value}{b}"))
    })
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -!#-\\[\\]-~]{0,12}",
        1 => "[\u{7f}-\u{ffff}\u{10000}-\u{10ffff}]{1,4}",
        1 => prop::sample::select(vec!["\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\ud83d\\ude00", "\\ud800", "\\u0000"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "c", "d", "e", "f", "\\u0061", "key", "k\\u0065y", "a longer key", "K", ""])
            .prop_map(|key| format!("\"{key}\"")),
        3 => "\"[a-z]{1,12}\"",
        1 => text(),
    ]
}

/// JSON with a few characters deleted, doubled or replaced.
fn damaged() -> impl Strategy<Value = String> {
    let damage = (
        any::<prop::sample::Index>(),
        prop::sample::select(vec!['"', '{', '}', '[', ',', ':', '\\', '0', 'e', '\n', '\u{1}', 'é']),
        0..3,
    );
    (json(), prop::collection::vec(damage, 0..3)).prop_map(|(text, damages)| {
        let mut characters: Vec<char> = text.chars().collect();
        for (place, character, how) in damages {
            let at = place.index(characters.len() + 1);
            match how {
                0 => characters.insert(at, character),
                1 if at < characters.len() => characters[at] = character,
                _ if at < characters.len() => drop(characters.remove(at)),
                _ => {}
            }
        }
        characters.into_iter().collect()
    })
}

/// Compares the reader's word with the oracle's.
fn agree(text: &str, depth: usize) -> Result<(), TestCaseError> {
    let read = RawJson::parse(text, depth);
    match (&read, oracle::judge(text, depth)) {
        (Ok(value), Ok(())) => {
            prop_assert_eq!(value.as_str(), text.trim_matches([' ', '\t', '\r', '\n']));
        }
        // Both refuse; a text that is no JSON may show a flaw of the strictness before it shows that.
        (Err(_), Err(None)) => {}
        (Err(Malformed { flaw, .. }), Err(Some(_))) => {
            let flaws = oracle::collect(text, depth);
            // Behind a key that is no text the oracle sees nothing more.
            prop_assert!(flaws.contains(flaw) || flaws.contains(&Flaw::LoneSurrogate), "{flaw:?}: {text}");
        }
        (read, judged) => prop_assert!(false, "{read:?} but {judged:?}: {text}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_reader_and_the_oracle_agree_on_json(text in json(), depth in 1..8_usize) {
        agree(&text, depth)?;
        agree(&text, 64)?;
    }

    #[test]
    fn the_reader_and_the_oracle_agree_on_damaged_json(text in damaged()) {
        agree(&text, 64)?;
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        agree(&text, 64)?;
        let _ = Document::parse(&text, &SHAPE, Limits::FRAME);
    }

    #[test]
    fn a_document_has_the_fields_that_serde_json_finds(text in json()) {
        let document = match Document::parse(&text, &SHAPE, Limits::FRAME) {
            Ok(document) => document,
            Err(malformed) if malformed.flaw == Flaw::NotAnObject => return Ok(()),
            Err(malformed) => {
                let judged = oracle::judge(&text, 64);
                prop_assert!(matches!(judged, Err(Some(_))), "{malformed:?} but {judged:?}: {text}");
                return Ok(());
            }
        };
        let oracle::Members(members) = serde_json::from_str(&text).expect("accepted by the strict reader");
        for name in ["a", "c", "key"] {
            let found = members.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
            let field = document.root().field(name);
            prop_assert_eq!(field.if_present().map(|field| field.raw()), found);
        }
        if document.root().field("c").kind() == Kind::Object {
            let inner = document.root().field("c").object().expect("its kind was told");
            let raw = document.root().field("c").raw();
            let oracle::Members(members) = serde_json::from_str(raw).expect("accepted by the strict reader");
            let found = members.iter().find(|(key, _)| key == "a").map(|(_, value)| *value);
            prop_assert_eq!(inner.field("a").if_present().map(|field| field.raw()), found);
        }
        let twins = members.iter().filter(|(key, _)| key != "key" && key.eq_ignore_ascii_case("key")).count();
        prop_assert!(document.case_twins().len() >= usize::from(twins > 0));
    }
}

#[test]
fn nesting_counts_the_outer_value_as_level_one() {
    for levels in [1, 61, 64] {
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(RawJson::parse(&deep, levels).is_ok());
        assert_eq!(RawJson::parse(&deep, levels - 1).expect_err("too deep").flaw, Flaw::TooDeep);
    }
    let deeper = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert_eq!(RawJson::parse(&deeper, usize::MAX).expect_err("never over 64").flaw, Flaw::TooDeep);
}

#[test]
fn the_levels_of_an_opaque_field_are_counted_from_itself() {
    let payload = format!("{}1{}", r#"{"x":"#.repeat(5), "}".repeat(5));
    let text = format!(r#"{{"a":{payload},"c":{{"a":[],"b":{payload}}},"key":[[]]}}"#);
    let document = Document::parse(&text, &SHAPE, Limits::FRAME).expect("valid");
    let root = document.root();
    assert_eq!(root.field("a").opaque(5).expect("5 levels").as_str(), payload);
    assert!(root.field("a").opaque(4).is_err());
    assert!(root.field("key").opaque(2).is_ok() && root.field("key").opaque(1).is_err());
    assert!(root.field("c").opaque(6).is_ok() && root.field("c").opaque(5).is_err());
}

#[test]
fn every_flaw_is_told_by_its_name_and_place() {
    for (text, flaw, at) in [
        ("", Flaw::Truncated, 0),
        (" {", Flaw::Truncated, 2),
        ("\u{feff}{}", Flaw::ByteOrderMark, 0),
        ("[]", Flaw::NotAnObject, 0),
        ("{} x", Flaw::Trailing, 3),
        ("{}{}", Flaw::Trailing, 2),
        (r#"{"a":01}"#, Flaw::Unexpected, 6),
        (r#"{"a":1.}"#, Flaw::Number, 7),
        (r#"{"a":-}"#, Flaw::Number, 6),
        (r#"{"a":+1}"#, Flaw::Unexpected, 5),
        (r#"{"a":NaN}"#, Flaw::Unexpected, 5),
        ("{\"a\":\"\n\"}", Flaw::Control, 6),
        (r#"{"a":"\x"}"#, Flaw::Escape, 6),
        (r#"{"a":"\u12g4"}"#, Flaw::Escape, 6),
        (r#"{"a":1,}"#, Flaw::Unexpected, 7),
        (r#"{"a" 1}"#, Flaw::Unexpected, 5),
        (r#"{'a':1}"#, Flaw::Unexpected, 1),
        (r#"{"a":1 "b":2}"#, Flaw::Unexpected, 7),
        (r#"{"a":[1}}"#, Flaw::Unexpected, 7),
        (r#"{"a":tru}"#, Flaw::Unexpected, 5),
    ] {
        let malformed = Document::parse(text, &SHAPE, Limits::FRAME).expect_err(text);
        assert_eq!((malformed.flaw, malformed.at), (flaw, at), "{text}");
    }
}

#[test]
fn duplicates_are_found_at_any_depth_and_after_unescaping() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":1}"#,
        r#"{"x":1,"\u0078":1}"#,
        r#"{"x":1,"y":2,"x":1}"#,
        r#"{"a":{"q":[{"z":0,"z":0}]}}"#,
        r#"{"z":{"q":[{"\ud83d\ude00":0,"😀":0}]}}"#,
        r#"{"c":{"a":1,"b":2,"\u0061":3}}"#,
        r#"{"":1,"":2}"#,
        r#"{"eightbyt":1,"eightbyt":2}"#,
    ] {
        assert_eq!(Document::parse(text, &SHAPE, Limits::FRAME).expect_err(text).flaw, Flaw::DuplicateKey, "{text}");
    }
    let apart = r#"{"a":1,"b":{"a":1},"c":{"a":1},"x":[{"a":1},{"a":1}],"A1":1,"a1":2,"y":"},{\"a\":1,\"a\":1"}"#;
    assert!(Document::parse(apart, &SHAPE, Limits::FRAME).is_ok());
}

#[test]
fn one_object_of_a_hundred_thousand_keys_is_read_and_its_one_duplicate_found() {
    let members = |last: usize| {
        let keys = (0..100_000).chain([last]).map(|n| format!("\"key number {n}\":0"));
        format!("{{{}}}", keys.collect::<Vec<_>>().join(","))
    };
    assert!(RawJson::parse(&members(100_000), 64).is_ok());
    assert_eq!(RawJson::parse(&members(70_000), 64).expect_err("twice").flaw, Flaw::DuplicateKey);
}

#[test]
fn lone_surrogates_are_refused_in_keys_and_known_strings_and_kept_in_opaque_json() {
    let malformed = RawJson::parse(r#"{"\ud800":1}"#, 64).expect_err("a key");
    assert_eq!(malformed.flaw, Flaw::LoneSurrogate);
    let text = r#"{"a":"\ud800","key":"\udfff"}"#;
    let document = Document::parse(text, &SHAPE, Limits::FRAME).expect("opaque so far");
    assert_eq!(document.root().field("a").opaque(61).expect("kept").as_str(), r#""\ud800""#);
    assert!(document.root().field("key").string(0..=usize::MAX).is_err());
}
