//! The pump over a pipe that holds a few bytes, on a paused clock: what stays stuck and for how long.

#[allow(dead_code, unreachable_pub, reason = "the peer of the integration tests, of which little is needed here")]
#[path = "../../tests/peer/mod.rs"]
mod peer;

use std::time::Duration;

use futures_util::FutureExt as _;
use perilune_proto::limits;
use perilune_proto::scalar::MessageId;
use perilune_proto::session::ClientSession;
use perilune_proto::wire::Register;
use tokio::time::Instant;

use self::peer::frames::{SUBSCRIPTION, acked, delivery, proof};
use self::peer::socket::{PING, TEXT, frame};
use self::peer::{Got, Socket};
use super::*;
use crate::connection::{Connection, Hold};
use crate::error::{ConnectionErrorKind, RequestErrorKind};
use crate::message_id::NewMessageId as _;

/// Less than a text frame of the contract, more than a pong.
const PIPE_BYTES: usize = 200;

fn begin() -> (Hold, Socket) {
    begin_over(PIPE_BYTES)
}

fn begin_over(pipe_bytes: usize) -> (Hold, Socket) {
    let (ours, theirs) = tokio::io::duplex(pipe_bytes);
    let register = Register { message_id: MessageId::new(), subscription_id: SUBSCRIPTION, capacity: 4 };
    let deadline = now() + limits::HANDSHAKE_TIMEOUT;
    let session = ClientSession::open(register, deadline, limits::CONTROL_REQUEST_TIMEOUT);
    let shared = Rc::new(Shared::new(session));
    let hold = Hold(Rc::clone(&shared));
    actix_rt::spawn(Pump::new(shared, Box::new(ours), BytesMut::new(), Timeouts::default()).run());
    (hold, Socket::new(Box::new(theirs)))
}

/// An open session, and a clock that moves only when nothing else does.
async fn open() -> (Connection, Socket) {
    open_over(PIPE_BYTES).await
}

async fn open_over(pipe_bytes: usize) -> (Connection, Socket) {
    tokio::time::pause();
    let (hold, mut socket) = begin_over(pipe_bytes);
    let (welcome, ()) = tokio::join!(hold.0.welcomed(), socket.welcome());
    (Connection::new(hold, welcome.expect("welcomed")), socket)
}

/// Timers of the runtime are exact to a millisecond.
fn assert_took(begun: Instant, time: Duration) {
    let took = begun.elapsed();
    assert!(took >= time && took < time + Duration::from_millis(10), "{took:?} instead of {time:?}");
}

/// Has the pump write until nothing fits the pipe any more: the answers to these are not read.
async fn get_stuck(socket: &mut Socket) {
    for _ in 0..4 {
        socket.raw(frame(PING, &[0; 125])).await;
        // Each is read by itself, so each is answered.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[actix_rt::test]
async fn a_missing_welcome_is_noticed_after_8_seconds() {
    tokio::time::pause();
    let begun = Instant::now();
    let (hold, mut socket) = begin();
    let (unwelcome, got) = tokio::join!(hold.0.welcomed(), async {
        socket.register().await;
        socket.got().await
    });
    assert_eq!(unwelcome.expect_err("silence").kind(), ConnectionErrorKind::Timeout);
    assert_eq!(got, Got::Close(Some(1001)));
    assert_took(begun, limits::HANDSHAKE_TIMEOUT);
}

#[actix_rt::test]
async fn a_request_has_10_seconds() {
    let (connection, mut socket) = open().await;
    let begun = Instant::now();
    let (unanswered, got) = tokio::join!(connection.ping(MessageId::new()), async {
        socket.ping().await;
        socket.got().await
    });
    assert_eq!(unanswered.expect_err("silence").kind(), RequestErrorKind::Connection);
    assert_eq!(got, Got::Close(Some(1001)));
    assert_took(begun, limits::CONTROL_REQUEST_TIMEOUT);
}

#[actix_rt::test]
async fn a_later_request_has_10_seconds_of_its_own() {
    let (connection, mut socket) = open().await;
    let (pong, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        let ping = socket.ping().await.message_id;
        tokio::time::sleep(Duration::from_secs(6)).await;
        socket.pong(ping).await;
    });
    assert!(pong.is_ok());
    let begun = Instant::now();
    let (unanswered, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        socket.ping().await;
    });
    assert!(unanswered.is_err());
    assert_took(begun, limits::CONTROL_REQUEST_TIMEOUT);
}

#[actix_rt::test]
async fn a_request_is_written_before_anything_else_runs() {
    let (connection, mut socket) = open_over(64 * 1_024).await;
    let mut ping = std::pin::pin!(connection.ping(MessageId::new()));
    assert!(ping.as_mut().now_or_never().is_none());
    assert!(socket.ping().now_or_never().is_some());
}

#[actix_rt::test]
async fn time_in_the_write_queue_counts() {
    let (connection, mut socket) = open().await;
    get_stuck(&mut socket).await;
    let begun = Instant::now();
    let proof = proof(1);
    let (unanswered, ()) = tokio::join!(connection.ack(MessageId::new(), &proof), async {
        // Some progress, so that the writer as such is not given up.
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(matches!(socket.got().await, Got::Pong(_)));
    });
    assert_eq!(unanswered.expect_err("never written").kind(), RequestErrorKind::Connection);
    assert_took(begun, limits::CONTROL_REQUEST_TIMEOUT);
    assert_eq!(connection.error().expect("ended").kind(), ConnectionErrorKind::Timeout);
}

#[actix_rt::test]
async fn a_peer_that_does_not_read_is_given_up() {
    let (connection, mut socket) = open().await;
    let begun = Instant::now();
    get_stuck(&mut socket).await;
    connection.closed().await;
    let error = connection.error().expect("ended");
    assert_eq!((error.kind(), error.is_retriable()), (ConnectionErrorKind::Timeout, true));
    assert_took(begun, Timeouts::default().write);
}

#[actix_rt::test]
async fn reading_goes_on_while_writing_is_stuck() {
    let (connection, mut socket) = open().await;
    get_stuck(&mut socket).await;
    assert!(connection.ping(MessageId::new()).now_or_never().is_none());
    // Many times what the pipe holds.
    let ((), ()) = tokio::join!(
        async {
            for n in 1..=4 {
                socket.deliver(n).await;
            }
        },
        async {
            for _ in 1..=4 {
                connection.next().await.expect("a delivery");
            }
        }
    );
    // What was stuck is written as soon as it may be, whole and in order.
    let mut pongs = 0;
    loop {
        match socket.got().await {
            Got::Pong(payload) if payload == [0; 125] => pongs += 1,
            Got::Text(text) if text.contains("ping") => break,
            other => panic!("{other:?}"),
        }
    }
    assert!((1..=4).contains(&pongs), "{pongs}");
}

#[actix_rt::test]
async fn a_receipt_is_handed_on_before_what_came_with_it_is_read() {
    let (connection, mut socket) = open_over(64 * 1_024).await;
    let proof = proof(1);
    let (read_already, ()) = tokio::join!(
        async {
            connection.ack(MessageId::new(), &proof).await.expect("a receipt");
            connection.next().now_or_never()
        },
        async {
            let receipt = wire::encode_server(&acked(&socket.ack().await));
            let delivery = wire::encode_server(&delivery(2));
            socket.raw([frame(TEXT, receipt.as_bytes()), frame(TEXT, delivery.as_bytes())].concat()).await;
        }
    );
    assert!(read_already.is_none(), "the next request comes first");
    connection.next().await.expect("it is read right after");
}

#[actix_rt::test]
async fn a_peer_that_answers_no_close_is_waited_for_one_second() {
    let (connection, mut socket) = open().await;
    let begun = Instant::now();
    let ((), got) = tokio::join!(connection.close(), socket.got());
    assert_eq!(got, Got::Close(Some(1000)));
    assert_took(begun, Duration::from_secs(1));
}

#[actix_rt::test]
async fn a_close_waits_behind_no_stuck_writer() {
    let (connection, mut socket) = open().await;
    get_stuck(&mut socket).await;
    let begun = Instant::now();
    connection.close().await;
    assert_took(begun, Duration::from_secs(1));
}

#[actix_rt::test]
async fn an_idle_session_has_no_deadline() {
    let (connection, mut socket) = open().await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(connection.error().is_none());
    let (pong, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        let ping = socket.ping().await.message_id;
        socket.pong(ping).await;
    });
    assert!(pong.is_ok());
}
