//! What a client may put on the wire, and what ends its session.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};

use crate::http_harness::{PATIENCE, TestServer};
use crate::session_client::{Client, End, closed_with};

async fn client(server: &TestServer) -> Client {
    let id = server.subscribe(json!({})).await;
    Client::consume(server, &id, 4).await
}

#[actix_web::test]
async fn a_ping_of_the_websocket_is_answered_with_its_bytes() {
    use futures_util::StreamExt as _;
    let server = TestServer::start().await;
    let mut client = client(&server).await;
    client.send_message(Message::Ping("abc".into())).await;
    let answer = timeout(PATIENCE, client.socket.next()).await.expect("in time").expect("a message").expect("read");
    assert_eq!(answer, Message::Pong("abc".into()));
}

#[actix_web::test]
async fn a_close_is_answered_with_its_code() {
    let server = TestServer::start().await;
    let mut client = client(&server).await;
    let close = CloseFrame { code: 1000.into(), reason: "".into() };
    client.send_message(Message::Close(Some(close))).await;
    assert_eq!(client.end().await, End::Closed(1000, Vec::new()));
}

#[actix_web::test]
async fn a_frame_in_fragments_is_one_frame() {
    let server = TestServer::start().await;
    let mut client = client(&server).await;
    let ping = client.ping_frame();
    let text = ping.to_string().into_bytes();
    let (first, rest) = text.split_at(20);
    let (second, third) = rest.split_at(20);
    for (part, code, last) in
        [(first, Data::Text, false), (second, Data::Continue, false), (third, Data::Continue, true)]
    {
        client.send_message(Message::Frame(Frame::message(part.to_vec(), OpCode::Data(code), last))).await;
        client.send_message(Message::Ping("between".into())).await;
    }
    let pong = client.frame().await;
    assert_eq!((&pong["type"], &pong["reply_to"]), (&json!("pong"), &ping["message_id"]));
}

#[actix_web::test]
async fn each_kind_of_bad_message_has_its_close_code() {
    let server = TestServer::start().await;
    let message = |code, bytes: &[u8]| Message::Frame(Frame::message(bytes.to_vec(), OpCode::Data(code), true));
    for (bad, code) in [
        (Message::binary("{}"), 1003),
        (message(Data::Text, b"\xff\xfe"), 1007),
        (Message::text("x".repeat(524_289)), 1009),
        (Message::text("{"), 1002),
        (Message::text(r#"{"type":"welcome"}"#), 1002),
        (Message::text(r#"{"type":"ping","type":"ping"}"#), 1002),
    ] {
        let mut client = client(&server).await;
        client.send_message(bad.clone()).await;
        assert_eq!(client.end().await, closed_with(code, "PROTOCOL_ERROR"), "{code}");
    }
}

#[actix_web::test]
async fn a_foreign_session_id_is_a_protocol_error() {
    let server = TestServer::start().await;
    let mut client = client(&server).await;
    let mut ping = client.ping_frame();
    ping["session_id"] = json!("0".repeat(32));
    client.send(&ping).await;
    assert_eq!(client.end().await, closed_with(1002, "PROTOCOL_ERROR"));
}

#[actix_web::test]
async fn a_bad_ack_confirms_nothing() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({"start": "earliest"})).await;
    server.report(1, "succeeded").await;
    let mut client = Client::consume(&server, &id, 4).await;
    let delivery = client.delivery().await;
    let mut ack = client.ack_frame(&delivery);
    ack["Secret"] = json!("x");
    client.send(&ack).await;
    assert_eq!(client.end().await, closed_with(1002, "PROTOCOL_ERROR"));
    assert_eq!(server.figure(&id, "acknowledged").await, 0);
}

/// A raw WebSocket, for bytes that no library sends.
async fn raw(server: &TestServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.running.addr()).await.expect("connected");
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n\
         Sec-WebSocket-Protocol: orbit.events.v1\r\nAuthorization: Bearer {}\r\n\r\n",
        server.credential
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.expect("in time").expect("a byte"));
    }
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    assert!(head.contains("sec-websocket-protocol: orbit.events.v1"), "{head}");
    assert!(!head.contains("sec-websocket-extensions"), "{head}");
    stream
}

/// The close code at the end of whatever the server sends.
async fn close_code(mut stream: TcpStream) -> u16 {
    let mut bytes = Vec::new();
    // A reset after the close is an end like any other.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an end in time");
    match bytes[..] {
        [.., 0x88, 2, high, low] => u16::from_be_bytes([high, low]),
        _ => panic!("no close in {bytes:?}"),
    }
}

#[actix_web::test]
async fn an_announced_length_over_the_limit_is_refused_before_its_bytes_come() {
    let server = TestServer::start().await;
    let mut stream = raw(&server).await;
    let mut header = vec![0x81, 0x80 | 127];
    header.extend((8_u64 << 30).to_be_bytes());
    stream.write_all(&header).await.expect("sent");
    assert_eq!(close_code(stream).await, 1009);
}

#[actix_web::test]
async fn what_breaks_rfc_6455_is_closed_with_1002() {
    let server = TestServer::start().await;
    for (what, bytes) in [
        ("unmasked", vec![0x81, 2, b'{', b'}']),
        ("compressed", vec![0xc1, 0x80, 0, 0, 0, 0]),
        ("reserved opcode", vec![0x83, 0x80, 0, 0, 0, 0]),
        ("continuation first", vec![0x80, 0x80, 0, 0, 0, 0]),
        ("fragmented ping", vec![0x09, 0x80, 0, 0, 0, 0]),
        ("long ping", vec![0x89, 0xfe, 0, 126, 0, 0, 0, 0]),
        ("close of one byte", vec![0x88, 0x81, 0, 0, 0, 0, 3]),
    ] {
        let mut stream = raw(&server).await;
        stream.write_all(&bytes).await.expect("sent");
        assert_eq!(close_code(stream).await, 1002, "{what}");
    }
}
