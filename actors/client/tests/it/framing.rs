//! RFC 6455 below the contract's frames: what is joined, answered, refused, and with which close code.

use std::time::Duration;

use perilune_client::{Connection, ConnectionError, ConnectionErrorKind, Timeouts};
use perilune_proto::wire;

use crate::peer::frames::delivery;
use crate::peer::socket::{BINARY, CLOSE, CONTINUE, CONTINUE_END, PING, PONG, TEXT, TEXT_BEGIN, frame, header};
use crate::peer::{Got, Peer};
use crate::{open, open_with};

/// The text of delivery number `n`.
fn text(n: u128) -> Vec<u8> {
    wire::encode_server(&delivery(n)).into_bytes()
}

async fn next_number(connection: &Connection) -> u128 {
    let received = connection.next().await.expect("a delivery");
    u128::from_be_bytes(*received.event().event_id.as_bytes())
}

/// Sends bytes that break the framing; the client must close with `code` and report a breach.
async fn breach(bytes: Vec<u8>, code: u16) -> ConnectionError {
    let (connection, mut socket) = open(4).await;
    socket.raw(&bytes).await;
    assert_eq!(socket.got().await, Got::Close(Some(code)), "{:x?}", &bytes[..bytes.len().min(16)]);
    assert_eq!(socket.got().await, Got::End);
    drop(socket);
    connection.closed().await;
    let error = connection.error().expect("ended");
    assert_eq!((error.kind(), error.code()), (ConnectionErrorKind::Protocol, "PROTOCOL_ERROR"));
    assert!(!error.is_retriable());
    error
}

#[actix_rt::test]
async fn fragments_are_joined_with_pings_between_them() {
    let (connection, mut socket) = open(4).await;
    let text = text(1);
    let (begin, rest) = text.split_at(10);
    let (middle, end) = rest.split_at(50);
    socket.raw(frame(TEXT_BEGIN, begin)).await;
    socket.raw(frame(PING, b"are you there?")).await;
    assert_eq!(socket.got().await, Got::Pong(b"are you there?".to_vec()));
    socket.raw([frame(CONTINUE, middle), frame(CONTINUE, b""), frame(CONTINUE_END, end)].concat()).await;
    assert_eq!(next_number(&connection).await, 1);
}

#[actix_rt::test]
async fn a_character_may_be_cut_by_fragments() {
    let (connection, mut socket) = open(4).await;
    let text = String::from_utf8(text(1)).expect("UTF-8").replace("GenerateReport\"", "GenerateReport\",\"x\":\"é\"");
    let cut = text.find('é').expect("there") + 1;
    socket.raw(frame(TEXT_BEGIN, &text.as_bytes()[..cut])).await;
    socket.raw(frame(CONTINUE_END, &text.as_bytes()[cut..])).await;
    assert_eq!(next_number(&connection).await, 1);
}

#[actix_rt::test]
async fn a_message_of_524288_bytes_passes_and_one_more_byte_is_1009() {
    let padded = |bytes: usize| {
        let mut text = text(1);
        text.resize(bytes, b' ');
        text
    };
    let (connection, mut socket) = open(4).await;
    socket.raw(frame(TEXT, &padded(524_288))).await;
    assert_eq!(next_number(&connection).await, 1);
    let halves = padded(524_288);
    socket.raw(frame(TEXT_BEGIN, &halves[..300_000])).await;
    socket.raw(frame(CONTINUE_END, &halves[300_000..])).await;
    assert_eq!(next_number(&connection).await, 1);

    breach(frame(TEXT, &padded(524_289)), 1009).await;
    let text = padded(524_289);
    breach([frame(TEXT_BEGIN, &text[..300_000]), frame(CONTINUE_END, &text[300_000..])].concat(), 1009).await;
}

#[actix_rt::test]
async fn an_announced_length_is_refused_before_its_bytes_are_read() {
    for announced in [524_289, 8 << 30, u64::MAX >> 1, u64::MAX] {
        // Not one byte of the payload follows.
        breach(header(TEXT, announced), 1009).await;
    }
    // Fragments count together, and the last header is enough.
    let first = frame(TEXT_BEGIN, &[b' '; 500_000]);
    breach([first, header(CONTINUE_END, 24_289)].concat(), 1009).await;
}

#[actix_rt::test]
async fn a_peer_that_streams_an_endless_frame_costs_no_memory() {
    // Long enough for the client to take everything, were it so minded.
    let timeouts = Timeouts { parting: Duration::from_secs(60), ..Timeouts::default() };
    let (connection, mut socket) = open_with(&Peer::plain().await, timeouts, 4).await;
    let before = resident_bytes();
    socket.raw(header(TEXT, 8 << 30)).await;
    let block = vec![b'x'; 1 << 20];
    for _ in 0..300 {
        socket.raw(&block).await;
    }
    let grown = resident_bytes().saturating_sub(before);
    // A third of what came: there is room for the tests that run beside this one.
    assert!(grown < 100 << 20, "grew by {grown} bytes");
    assert_eq!(connection.error().expect("ended").kind(), ConnectionErrorKind::Protocol);
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("pages") * 4_096
}

#[actix_rt::test]
async fn text_that_is_no_utf8_is_1007_and_binary_is_1003() {
    breach(frame(TEXT, b"{\"type\":\"\xff\xfe\"}"), 1007).await;
    breach([frame(TEXT_BEGIN, b"{\xc3"), frame(CONTINUE_END, b"\x28}")].concat(), 1007).await;
    breach(frame(BINARY, &text(1)), 1003).await;
    breach([frame(0x02, b"{"), frame(CONTINUE_END, b"}")].concat(), 1003).await;
}

#[actix_rt::test]
async fn broken_framing_is_1002() {
    let masked = [vec![TEXT, 0x80 | 2, 0, 0, 0, 0], b"{}".to_vec()].concat();
    let breaches = [
        masked,
        frame(0xc1, b"{}"), // RSV1: compressed
        frame(0xa1, b"{}"), // RSV2
        frame(0x91, b"{}"), // RSV3
        frame(0x83, b"{}"), // reserved opcodes
        frame(0x8b, b"{}"),
        frame(CONTINUE_END, b"{}"),                            // nothing to continue
        [frame(TEXT_BEGIN, b"{"), frame(TEXT, b"}")].concat(), // a message inside a message
        frame(0x09, b"part of a ping"),                        // a control frame in fragments
        frame(PING, &[0; 126]),                                // a control frame too long
        header(PING, 70_000),
        vec![TEXT, 126, 0, 2, b'{', b'}'], // a length in more bytes than it needs
        [vec![TEXT, 127], 300u64.to_be_bytes().to_vec()].concat(),
    ];
    for bytes in breaches {
        breach(bytes, 1002).await;
    }
}

#[actix_rt::test]
async fn a_bad_close_is_1002() {
    for payload in [
        &[3][..],              // half a code
        &999u16.to_be_bytes(), // codes that may not be sent
        &1004u16.to_be_bytes(),
        &1005u16.to_be_bytes(),
        &1006u16.to_be_bytes(),
        &1015u16.to_be_bytes(),
        &5000u16.to_be_bytes(),
        b"\x03\xe8\xff\xfe", // a reason that is no UTF-8
    ] {
        breach(frame(CLOSE, payload), 1002).await;
    }
}

#[actix_rt::test]
async fn a_breach_ends_the_session_and_nothing_after_it_counts() {
    let (connection, mut socket) = open(4).await;
    socket.raw([frame(TEXT, &text(1)), frame(0xc1, b"{}"), frame(TEXT, &text(2))].concat()).await;
    // What came before it does.
    assert_eq!(next_number(&connection).await, 1);
    let error = connection.next().await.expect_err("ended");
    assert_eq!(error.kind(), ConnectionErrorKind::Protocol);
}

#[actix_rt::test]
async fn a_close_is_answered_with_its_code_and_nothing_after_it_counts() {
    for (code, retriable) in [
        (1000, true),
        (1001, true),
        (1002, false),
        (1003, false),
        (1007, false),
        (1008, false),
        (1009, false),
        (1010, false),
        (1011, true),
        (1012, true),
        (1013, true),
        (1014, true),
        (3000, false),
        (4000, false),
        (4999, false),
    ] {
        let (connection, mut socket) = open(4).await;
        socket.raw([frame(CLOSE, &u16::to_be_bytes(code)), frame(TEXT, &text(1))].concat()).await;
        assert_eq!(socket.got().await, Got::Close(Some(code)));
        assert_eq!(socket.got().await, Got::End);
        let error = connection.next().await.expect_err("ended");
        assert_eq!(error.kind(), ConnectionErrorKind::Closed(code));
        assert_eq!((error.code(), error.is_retriable()), (&*format!("CLOSE_{code}"), retriable));
    }
}

#[actix_rt::test]
async fn a_close_without_a_code_is_answered_without_one_and_counts_as_1005() {
    let (connection, mut socket) = open(4).await;
    socket.raw(frame(CLOSE, b"")).await;
    assert_eq!(socket.got().await, Got::Close(None));
    let error = connection.next().await.expect_err("ended");
    assert_eq!((error.kind(), error.is_retriable()), (ConnectionErrorKind::Closed(1005), true));
}

#[actix_rt::test]
async fn going_without_a_close_counts_as_1006_even_within_a_frame() {
    for bytes in [vec![], vec![TEXT], frame(TEXT, &text(1))[..40].to_vec(), frame(TEXT_BEGIN, b"{")] {
        let (connection, mut socket) = open(4).await;
        socket.raw(&bytes).await;
        socket.fin().await;
        let error = connection.next().await.expect_err("ended");
        assert_eq!((error.kind(), error.code()), (ConnectionErrorKind::Closed(1006), "CLOSE_1006"));
        assert!(error.is_retriable());
    }
}

#[actix_rt::test]
async fn pings_are_answered_and_pongs_mean_nothing() {
    let (connection, mut socket) = open(4).await;
    socket.raw([frame(PONG, b"unasked"), frame(PING, b"")].concat()).await;
    assert_eq!(socket.got().await, Got::Pong(vec![]));
    socket.raw(frame(PING, &[1; 125])).await;
    assert_eq!(socket.got().await, Got::Pong(vec![1; 125]));
    assert!(connection.error().is_none());
}

#[actix_rt::test]
async fn pings_are_not_answered_one_by_one_to_a_peer_that_does_not_read() {
    const PINGS: usize = 20_000;
    let (_connection, mut socket) = open(4).await;
    let pings = frame(PING, &[9; 125]).repeat(1_000);
    for _ in 0..PINGS / 1_000 {
        socket.raw(&pings).await;
    }
    socket.raw(frame(PING, b"last")).await;
    // What did not fit the socket was not kept: only the latest ping must be answered.
    let mut answers = 0;
    loop {
        match socket.got().await {
            Got::Pong(payload) if payload == b"last" => break,
            Got::Pong(_) => answers += 1,
            other => panic!("{other:?} after {answers} answers"),
        }
    }
    assert!(answers < PINGS, "{answers} answers were queued");
}
