//! From the request to the `welcome`.

use std::time::Duration;

use perilune_client::{Client, Credential, DialErrorKind, Timeouts};
use perilune_proto::wire::{self, ServerFrame};
use tokio::io::AsyncReadExt as _;

use crate::peer::frames::{self, SESSION, SUBSCRIPTION};
use crate::peer::socket::{TEXT, frame};
use crate::peer::{Got, Peer};
use crate::{TOKEN, client, dial_error, hasty, open, registration, with_times};

#[actix_rt::test]
async fn the_request_has_the_path_the_credential_and_the_subprotocol_and_offers_no_extension() {
    let peer = Peer::plain().await;
    let credential = Credential::new(TOKEN).expect("a credential");
    let client = Client::builder(peer.url() + "/base/").credential(credential).build().expect("options");
    let (_, request) = tokio::join!(async { client.dial_events(registration(4)).await }, async {
        let request = peer.accept().await;
        let head = request.head.clone();
        request.refuse(404, "", "").await;
        head
    });
    let mut lines = request.lines();
    assert_eq!(lines.next(), Some("GET /base/v1/events HTTP/1.1"));
    let headers: Vec<String> = lines.map(str::to_ascii_lowercase).collect();
    assert!(headers.contains(&format!("authorization: bearer {TOKEN}")), "{headers:?}");
    assert!(headers.contains(&"sec-websocket-protocol: orbit.events.v1".to_owned()), "{headers:?}");
    assert!(!request.to_ascii_lowercase().contains("sec-websocket-extensions"), "{headers:?}");
}

#[actix_rt::test]
async fn register_comes_first_and_the_welcome_opens_the_session() {
    let peer = Peer::plain().await;
    let client = client(&peer);
    let (connection, register) = tokio::join!(client.dial_events(registration(7)), async {
        let mut socket = peer.accept().await.upgrade().await;
        let register = socket.register().await;
        socket.send(&ServerFrame::Welcome(frames::welcome(&register))).await;
        (register, socket)
    });
    let connection = connection.expect("welcomed");
    assert_eq!((register.0.subscription_id, register.0.capacity), (SUBSCRIPTION, 7));
    assert_eq!(connection.welcome().session_id, SESSION);
    assert_eq!(connection.welcome().subscription_name, "invoices");
    assert!(connection.error().is_none());
}

#[actix_rt::test]
async fn a_capacity_beyond_the_range_is_refused_before_anything_is_dialled() {
    let peer = Peer::plain().await;
    for capacity in [0, 33] {
        let error = client(&peer).dial_events(registration(capacity)).await.expect_err("out of range");
        assert_eq!(error.kind(), DialErrorKind::Capacity);
        assert!(!error.is_retriable());
    }
    assert!(tokio::time::timeout(Duration::from_millis(50), peer.accept_tcp()).await.is_err());
}

#[actix_rt::test]
async fn a_101_with_another_subprotocol_or_none_or_two_is_a_protocol_error() {
    let right = "sec-websocket-protocol: orbit.events.v1\r\n";
    for headers in [
        "",
        "sec-websocket-protocol: orbit.events.v2\r\n",
        "sec-websocket-protocol: Orbit.Events.V1\r\n",
        "sec-websocket-protocol: orbit.events.v1, other\r\n",
        &right.repeat(2),
    ] {
        let error =
            dial_error(Timeouts::default(), async |peer: Peer| peer.accept().await.upgrade_with(headers).await).await;
        assert_eq!((error.kind(), error.code()), (DialErrorKind::Protocol, "PROTOCOL_ERROR"), "{headers}");
        assert!(!error.is_retriable());
    }
}

#[actix_rt::test]
async fn a_101_with_an_extension_is_a_protocol_error() {
    let error = dial_error(Timeouts::default(), async |peer: Peer| {
        let headers = "sec-websocket-protocol: orbit.events.v1\r\nsec-websocket-extensions: permessage-deflate\r\n";
        peer.accept().await.upgrade_with(headers).await
    })
    .await;
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Protocol, false));
}

#[actix_rt::test]
async fn a_101_without_the_right_accept_or_upgrade_headers_is_a_protocol_error() {
    let protocol = "sec-websocket-protocol: orbit.events.v1\r\n";
    for headers in [
        "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n",
        "connection: upgrade\r\nupgrade: websocket\r\n",
        "upgrade: websocket\r\nsec-websocket-accept: {accept}\r\n",
        "connection: upgrade\r\nsec-websocket-accept: {accept}\r\n",
        "connection: close\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n",
    ] {
        let error = dial_error(Timeouts::default(), async |peer: Peer| {
            let request = peer.accept().await;
            let headers = headers.replace("{accept}", &request.accept_key());
            request.answer(format!("HTTP/1.1 101 x\r\n{headers}{protocol}\r\n")).await
        })
        .await;
        assert_eq!((error.kind(), error.code()), (DialErrorKind::Protocol, "PROTOCOL_ERROR"), "{headers}");
    }
}

#[actix_rt::test]
async fn an_answer_that_is_no_http_is_a_protocol_error() {
    let error =
        dial_error(Timeouts::default(), async |peer: Peer| peer.accept().await.answer("SSH-2.0-OpenSSH\r\n\r\n").await)
            .await;
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Protocol, false));
}

#[actix_rt::test]
async fn a_peer_that_is_not_there_or_goes_without_an_answer_is_a_network_error() {
    let gone = Peer::plain().await;
    let client = client(&gone);
    drop(gone);
    let error = client.dial_events(registration(4)).await.expect_err("refused");
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Network, true));

    let error = dial_error(Timeouts::default(), async |peer: Peer| drop(peer.accept().await)).await;
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Network, true));
}

#[actix_rt::test]
async fn silence_at_any_stage_ends_with_the_handshakes_time() {
    let before = std::time::Instant::now();
    let unanswered = dial_error(hasty(), async |peer: Peer| peer.accept().await).await;
    let half_head =
        dial_error(hasty(), async |peer: Peer| peer.accept().await.answer("HTTP/1.1 101 x\r\nup").await).await;
    let unwelcomed = dial_error(hasty(), async |peer: Peer| peer.accept().await.upgrade().await).await;
    for error in [unanswered, half_head, unwelcomed] {
        assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Timeout, true));
    }
    assert!(before.elapsed() >= 3 * hasty().handshake);
}

#[actix_rt::test]
async fn the_stages_share_one_time() {
    // Two thirds of the time until the 101, two thirds until the welcome: too late.
    let wait = hasty().handshake * 2 / 3;
    let error = dial_error(hasty(), async |peer: Peer| {
        let request = peer.accept().await;
        tokio::time::sleep(wait).await;
        let mut socket = request.upgrade().await;
        let register = socket.register().await;
        tokio::time::sleep(wait).await;
        socket.send(&ServerFrame::Welcome(frames::welcome(&register))).await;
        socket
    })
    .await;
    assert_eq!(error.kind(), DialErrorKind::Timeout);
}

#[actix_rt::test]
async fn dropping_the_dial_ends_the_attempt() {
    let peer = Peer::plain().await;
    let client = with_times(&peer, Timeouts::default());
    // Before the answer.
    let mut tcp = {
        let dial = client.dial_events(registration(4));
        tokio::select! {
            _ = dial => unreachable!("nobody answers"),
            tcp = peer.accept_tcp() => tcp,
        }
    };
    let mut request = Vec::new();
    tcp.read_to_end(&mut request).await.expect("the client has closed");
    // Before the welcome.
    let mut socket = {
        let dial = client.dial_events(registration(4));
        tokio::select! {
            _ = dial => unreachable!("nobody says welcome"),
            socket = async {
                let mut socket = peer.accept().await.upgrade().await;
                socket.register().await;
                socket
            } => socket,
        }
    };
    assert_eq!(socket.got().await, Got::Close(Some(1000)));
    assert_eq!(socket.got().await, Got::End);
}

#[actix_rt::test]
async fn a_frame_in_one_segment_with_the_101_counts() {
    let error = dial_error(Timeouts::default(), async |peer: Peer| {
        let request = peer.accept().await;
        let refusal = wire::encode_server(&ServerFrame::Error(frames::early_error("UNAVAILABLE", None)));
        let accept = request.accept_key();
        let head = format!(
            "HTTP/1.1 101 x\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\
             sec-websocket-protocol: orbit.events.v1\r\n\r\n"
        );
        request.answer([head.into_bytes(), frame(TEXT, refusal.as_bytes())].concat()).await
    })
    .await;
    assert_eq!((error.kind(), error.code()), (DialErrorKind::Rejected, "UNAVAILABLE"));
    assert_eq!(error.retry_after(), Some(Duration::from_millis(1_500)));
}

#[actix_rt::test]
async fn an_error_before_the_welcome_carries_its_code() {
    for (code, retriable) in [
        ("UNAVAILABLE", true),
        ("RATE_LIMITED", true),
        ("SUBSCRIPTION_NOT_FOUND", false),
        ("HISTORY_GAP", false),
        ("PERMISSION_DENIED", false),
        ("SOMETHING_NEW", false),
    ] {
        let error = dial_error(Timeouts::default(), async |peer: Peer| {
            let mut socket = peer.accept().await.upgrade().await;
            let register = socket.register().await;
            socket.send(&ServerFrame::Error(frames::early_error(code, Some(register.message_id)))).await;
            socket
        })
        .await;
        assert_eq!((error.kind(), error.code()), (DialErrorKind::Rejected, code));
        assert_eq!(error.is_retriable(), retriable, "{code}");
        assert_eq!(error.is_history_gap(), code == "HISTORY_GAP");
        assert!(!format!("{error} {error:?}").contains("remote detail"));
    }
}

#[actix_rt::test]
async fn a_close_before_the_welcome_carries_its_code() {
    for (code, retriable) in [(1001, true), (1012, true), (1013, true), (1008, false), (4000, false)] {
        let error = dial_error(Timeouts::default(), async |peer: Peer| {
            let mut socket = peer.accept().await.upgrade().await;
            socket.close(code).await;
            socket
        })
        .await;
        assert_eq!(error.kind(), DialErrorKind::Closed(code));
        assert_eq!((error.code(), error.is_retriable()), (&*format!("CLOSE_{code}"), retriable));
    }
}

/// Answers the `register` with what `reply` makes of it; the dial must fail with a protocol error, of
/// which the peer hears by a close 1002.
async fn breach(reply: impl FnOnce(wire::Register) -> ServerFrame) {
    let error = dial_error(Timeouts::default(), async |peer: Peer| {
        let mut socket = peer.accept().await.upgrade().await;
        let register = socket.register().await;
        socket.send(&reply(register)).await;
        assert_eq!(socket.got().await, Got::Close(Some(1002)));
    })
    .await;
    assert_eq!((error.kind(), error.code()), (DialErrorKind::Protocol, "PROTOCOL_ERROR"));
    assert!(!error.is_retriable());
}

#[actix_rt::test]
async fn a_welcome_that_does_not_repeat_the_register_is_a_protocol_error() {
    breach(|mut register| {
        register.capacity += 1;
        ServerFrame::Welcome(frames::welcome(&register))
    })
    .await;
    breach(|mut register| {
        register.subscription_id = perilune_client::SubscriptionId::from_u128(1);
        ServerFrame::Welcome(frames::welcome(&register))
    })
    .await;
    breach(|mut register| {
        register.message_id = perilune_client::MessageId::from_u128(1);
        ServerFrame::Welcome(frames::welcome(&register))
    })
    .await;
}

#[actix_rt::test]
async fn another_first_frame_than_welcome_or_error_is_a_protocol_error() {
    breach(|_| frames::delivery(1)).await;
    breach(|register| frames::pong(register.message_id)).await;
}

#[actix_rt::test]
async fn an_early_error_with_a_session_or_for_another_request_is_a_protocol_error() {
    breach(|register| frames::error("UNAVAILABLE", Some(register.message_id))).await;
    let other = Some(perilune_client::MessageId::from_u128(1));
    breach(|_| ServerFrame::Error(frames::early_error("UNAVAILABLE", other))).await;
}

#[actix_rt::test]
async fn more_than_a_hundred_sessions_of_one_client_are_open_at_once() {
    let mut open_ones = Vec::new();
    for _ in 0..120 {
        open_ones.push(open(1).await);
    }
    let peer = Peer::plain().await;
    let client = client(&peer);
    for _ in 0..120 {
        let (dialled, socket) = tokio::join!(client.dial_events(registration(1)), peer.welcome());
        open_ones.push((dialled.expect("welcomed"), socket));
    }
    assert!(open_ones.iter().all(|(connection, _)| connection.error().is_none()));
}
