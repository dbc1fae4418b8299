//! The transcripts of `tests/data/wire`: one message a file, its verdict on the first line. Each is read
//! by the frame reader and then by the end of a session that it is meant for. `docs/wire.md` says how
//! another implementation reads them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use perilune_proto::EventProof;
use perilune_proto::json::{FieldFault, Flaw};
use perilune_proto::scalar::{
    DeliveryId, EventId, Generation, MessageId, Secret, SessionId, SubscriptionId, Timestamp,
};
use perilune_proto::session::client::{Breach, ClientSession, Effect as ClientEffect, EndCause};
use perilune_proto::session::server::{Admission, Effect as ServerEffect, ServerSession, Terms};
use perilune_proto::wire::{
    ClientFrame, CloseCode, FrameError, Ping, Register, ServerFrame, Welcome, decode_client, decode_server,
    encode_client, encode_server, message_text,
};

/// How many transcripts there must be at the least.
const TRANSCRIPTS_MIN: usize = 300;

const CAPACITY: u8 = 4;

fn id(digit: u8) -> [u8; 16] {
    [digit << 4 | digit; 16]
}

/// One file, taken apart.
struct Transcript {
    name: String,
    direction: Direction,
    stage: Stage,
    verdict: Verdict,
    message: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    ClientToServer,
    ServerToClient,
}

/// What has been said before the message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing by its sender.
    First,
    /// `welcome`.
    Open,
}

enum Verdict {
    Valid,
    Invalid { reason: String, close: CloseCode },
}

fn transcripts() -> Vec<Transcript> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/wire");
    let entries = fs::read_dir(&folder).expect("the folder of transcripts");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| transcript(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))).collect()
}

fn transcript(path: &std::path::Path) -> Result<Transcript, String> {
    if path.extension().is_none_or(|extension| extension != "txt") {
        return Err("not a transcript".into());
    }
    let content = fs::read(path).map_err(|error| error.to_string())?;
    let end = content.iter().position(|&c| c == b'\n').ok_or("no first line")?;
    let (line, message) = (str::from_utf8(&content[..end]).map_err(|e| e.to_string())?, &content[end + 1..]);
    let mut words = line.split(' ');
    let direction = match words.next() {
        Some("client-to-server") => Direction::ClientToServer,
        Some("server-to-client") => Direction::ServerToClient,
        _ => return Err("no direction".into()),
    };
    let stage = match words.next() {
        Some("first") => Stage::First,
        Some("open") => Stage::Open,
        _ => return Err("no stage".into()),
    };
    let verdict = match words.next() {
        Some("valid") => Verdict::Valid,
        Some("invalid") => Verdict::Invalid {
            reason: words.next().ok_or("no reason")?.to_owned(),
            close: CloseCode(words.next().and_then(|code| code.parse().ok()).ok_or("no close code")?),
        },
        _ => return Err("no verdict".into()),
    };
    let mut message = message.to_vec();
    if let Some(word) = words.next() {
        let length = word.strip_prefix("padded-to:").and_then(|n| n.parse().ok()).ok_or("an unknown word")?;
        message.resize(length, b' ');
    }
    if words.next().is_some() {
        return Err("too many words".into());
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Transcript { name, direction, stage, verdict, message })
}

/// What our side says to a message: nothing, or the transcript's word for it and the close code.
type Said = Option<(String, CloseCode)>;

fn judge(transcript: &Transcript) -> Said {
    // Whether a message is binary is not in its bytes.
    let is_binary = matches!(&transcript.verdict, Verdict::Invalid { reason, .. } if reason == "binary");
    let text = if is_binary { Err(FrameError::Binary) } else { message_text(&transcript.message) };
    let said_of_frame = |error: FrameError| Some((reason(&error), error.close_code()));
    match (transcript.direction, text) {
        (_, Err(error)) => said_of_frame(error),
        (Direction::ClientToServer, Ok(text)) => match decode_client(text) {
            Err(error) => {
                assert_eq!(server_close(transcript.stage, text), Some(error.close_code()), "{}", transcript.name);
                said_of_frame(error)
            }
            Ok(frame) => {
                assert_eq!(decode_client(&encode_client(&frame)), Ok(frame), "{}", transcript.name);
                // A server tells breaches of a session apart for nobody but its reader.
                server_close(transcript.stage, text).map(|close| (word(&transcript.verdict), close))
            }
        },
        (Direction::ServerToClient, Ok(text)) => match decode_server(text) {
            Err(error) => said_of_frame(error),
            Ok(frame) => {
                if let ServerFrame::Delivery(delivery) = &frame {
                    let snapshot = &delivery.event.snapshot;
                    for opaque in [&snapshot.payload, &snapshot.result] {
                        assert!(text.contains(opaque.as_str()), "{}: not byte for byte", transcript.name);
                    }
                }
                assert_eq!(decode_server(&encode_server(&frame)).as_ref(), Ok(&frame), "{}", transcript.name);
                client_breach(transcript.stage, frame).map(|breach| (breach_word(&breach), breach.close_code()))
            }
        },
    }
}

fn word(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Invalid { reason, .. } if ["session-id", "message-id", "out-of-place"].contains(&&**reason) => {
            reason.clone()
        }
        _ => "a breach of the session".to_owned(),
    }
}

/// The transcripts' word for what is wrong with a message.
fn reason(error: &FrameError) -> String {
    match error {
        FrameError::Binary => "binary".into(),
        FrameError::TooLong => "too-long".into(),
        FrameError::NotUtf8 => "not-utf-8".into(),
        FrameError::Malformed(malformed) => match malformed.flaw {
            Flaw::DuplicateKey => "duplicate-key".into(),
            Flaw::TooDeep => "too-deep".into(),
            Flaw::Trailing => "trailing-bytes".into(),
            Flaw::LoneSurrogate => "lone-surrogate".into(),
            Flaw::ByteOrderMark => "byte-order-mark".into(),
            Flaw::NotAnObject => "not-an-object".into(),
            _ => "syntax".into(),
        },
        FrameError::Field(field) => match field.fault {
            FieldFault::Missing => format!("missing:{}", field.pointer),
            FieldFault::CaseTwin => format!("case-twin:{}", field.pointer),
            _ => format!("field:{}", field.pointer),
        },
        other => format!("{other:?}"),
    }
}

fn breach_word(breach: &Breach) -> String {
    match breach {
        Breach::OutOfPlace => "out-of-place",
        Breach::Session => "session-id",
        Breach::Reply => "reply-to",
        Breach::Receipt => "receipt",
        Breach::Echo => "echo",
        Breach::OtherSubscription => "subscription",
        Breach::ProofCode => "proof-code",
        _ => "unexpected",
    }
    .to_owned()
}

fn register() -> Register {
    Register {
        message_id: MessageId::from_bytes(id(3)),
        subscription_id: SubscriptionId::from_bytes(id(2)),
        capacity: CAPACITY,
    }
}

/// The client's end, with an `ack` and a `ping` in flight once it is open.
fn client(stage: Stage) -> ClientSession {
    let now = Instant::now();
    let mut session = ClientSession::open(register(), now + Duration::from_secs(8), Duration::from_secs(10));
    if stage == Stage::Open {
        session.receive(ServerFrame::Welcome(Welcome {
            reply_to: MessageId::from_bytes(id(3)),
            session_id: SessionId::from_bytes(id(1)),
            subscription_id: SubscriptionId::from_bytes(id(2)),
            subscription_name: "invoices".to_owned(),
            enabled: true,
            capacity: CAPACITY,
            heartbeat_interval_ms: 15_000,
            lease_ms: 30_000,
            server_time: Timestamp::from_unix_micros(0).expect("in range"),
        }));
        let proof = EventProof {
            subscription_id: SubscriptionId::from_bytes(id(2)),
            delivery_id: DeliveryId::from_u128(0xd000_0000_0000_0000_0000_0000_0000_0001),
            event_id: EventId::from_u128(0xe000_0000_0000_0000_0000_0000_0000_0001),
            generation: Generation(1),
            secret: Secret::from_bytes([7; 32]),
        };
        session.ack(MessageId::from_bytes(id(4)), &proof, now).expect("open");
        session.ping(MessageId::from_bytes(id(5)), now).expect("open");
    }
    while session.poll_effect().is_some() {}
    session
}

fn client_breach(stage: Stage, frame: ServerFrame) -> Option<Breach> {
    let mut session = client(stage);
    session.receive(frame);
    std::iter::from_fn(|| session.poll_effect()).find_map(|effect| match effect {
        ClientEffect::End(EndCause::Breach(breach)) => Some(breach),
        _ => None,
    })
}

/// The server's end, with a `ping` in flight once it is open.
fn server(stage: Stage, now: Instant) -> ServerSession {
    let mut session = ServerSession::new(Terms::default(), now);
    if stage == Stage::Open {
        session.text(&encode_client(&ClientFrame::Register(register())), now);
        let admission = Admission {
            session_id: SessionId::from_bytes(id(1)),
            subscription_name: "invoices".to_owned(),
            enabled: true,
            server_time: Timestamp::from_unix_micros(0).expect("in range"),
        };
        session.accept(admission, now);
        let ping = Ping { session_id: SessionId::from_bytes(id(1)), message_id: MessageId::from_bytes(id(5)) };
        session.text(&encode_client(&ClientFrame::Ping(ping)), now);
    }
    while session.poll_effect().is_some() {}
    session
}

/// The code that a server closes with after the message, if it does. An `error` frame goes before it.
fn server_close(stage: Stage, text: &str) -> Option<CloseCode> {
    let now = Instant::now();
    let mut session = server(stage, now);
    session.text(text, now);
    let effects: Vec<_> = std::iter::from_fn(|| session.poll_effect()).collect();
    match &effects[..] {
        [ServerEffect::Send(error), ServerEffect::Close(code)] => {
            let Ok(ServerFrame::Error(error)) = decode_server(error) else { panic!("no error before the close") };
            assert_eq!(error.code.as_str(), "PROTOCOL_ERROR");
            Some(*code)
        }
        [ServerEffect::Register(_) | ServerEffect::Confirm(_) | ServerEffect::Check { .. }] => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_transcript_gets_its_verdict() {
    let mut wrong = Vec::new();
    for transcript in transcripts() {
        let said = judge(&transcript);
        let right = match (&transcript.verdict, &said) {
            (Verdict::Valid, None) => true,
            (Verdict::Invalid { reason, close }, Some(said)) => (reason, close) == (&said.0, &said.1),
            _ => false,
        };
        if !right {
            wrong.push(format!("{}: {said:?}", transcript.name));
        }
    }
    assert!(wrong.is_empty(), "other verdicts than the transcripts':\n{}", wrong.join("\n"));
}

#[test]
fn the_transcripts_cover_every_frame_both_ways_and_every_reason() {
    let all = transcripts();
    assert!(all.len() >= TRANSCRIPTS_MIN, "{} transcripts", all.len());
    let valid = all.iter().filter(|transcript| matches!(transcript.verdict, Verdict::Valid));
    let frames: BTreeSet<_> = valid.filter_map(|t| Some((t.direction, t.name.split('-').next()?.to_owned()))).collect();
    for frame in ["register", "ack", "ping"] {
        assert!(frames.contains(&(Direction::ClientToServer, frame.to_owned())), "{frame}");
    }
    for frame in ["welcome", "delivery", "acked", "pong", "error"] {
        assert!(frames.contains(&(Direction::ServerToClient, frame.to_owned())), "{frame}");
    }
    let reasons: BTreeSet<_> = all
        .iter()
        .filter_map(|transcript| match &transcript.verdict {
            Verdict::Invalid { reason, .. } => reason.split(':').next(),
            Verdict::Valid => None,
        })
        .collect();
    let documented = fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/wire.md"));
    let documented = documented.expect("docs/wire.md");
    for reason in reasons {
        assert!(documented.contains(&format!("| `{reason}` |")), "docs/wire.md does not explain {reason}");
    }
}
