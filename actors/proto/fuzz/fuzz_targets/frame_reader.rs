//! Any bytes through the frame reader, compared with the oracle of the strict reader's own tests:
//! what `serde_json` refuses is refused, what is refused besides has a flaw that the oracle sees too,
//! and what is accepted comes back as the same frame.

#![no_main]

#[path = "../../tests/oracle/mod.rs"]
mod oracle;

use libfuzzer_sys::fuzz_target;
use perilune_proto::RawJson;
use perilune_proto::json::Flaw;
use perilune_proto::wire::{
    decode_client, decode_event, decode_server, encode_client, encode_event, encode_server, message_text,
};

fuzz_target!(|bytes: &[u8]| {
    // The transcripts are the seeds; their first line is a verdict.
    let message = match bytes.iter().position(|&c| c == b'\n') {
        Some(end) if bytes.starts_with(b"client-to-") || bytes.starts_with(b"server-to-") => &bytes[end + 1..],
        _ => bytes,
    };
    let Ok(text) = message_text(message) else { return };
    reader(text);
    frames(text);
});

fn reader(text: &str) {
    let read = RawJson::parse(text, 64);
    match (&read, oracle::judge(text, 64)) {
        (Ok(value), Ok(())) => assert_eq!(value.as_str(), text.trim_matches([' ', '\t', '\r', '\n'])),
        (Err(_), Err(None)) => {}
        (Err(malformed), Err(Some(_))) => {
            let flaws = oracle::collect(text, 64);
            assert!(flaws.contains(&malformed.flaw) || flaws.contains(&Flaw::LoneSurrogate), "{malformed:?}");
        }
        (read, judged) => panic!("{read:?} but {judged:?}"),
    }
}

fn frames(text: &str) {
    if let Ok(frame) = decode_client(text) {
        assert!(oracle::judge(text, 64).is_ok());
        assert_eq!(decode_client(&encode_client(&frame)), Ok(frame));
    }
    if let Ok(frame) = decode_server(text) {
        assert!(oracle::judge(text, 64).is_ok());
        assert_eq!(decode_server(&encode_server(&frame)), Ok(frame));
    }
    if let Ok(event) = decode_event(text) {
        assert!(oracle::judge(text, 64).is_ok());
        assert_eq!(decode_event(&encode_event(&event)), Ok(event));
    }
}
