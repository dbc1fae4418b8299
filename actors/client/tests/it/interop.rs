//! The same session with another WebSocket implementation at the far end.

use futures_util::{SinkExt as _, StreamExt as _};
use perilune_client::{Client, Credential, MessageId, NewMessageId as _};
use perilune_proto::wire::{self, ClientFrame, ServerFrame};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

use crate::peer::frames;
use crate::registration;

async fn accept(listener: &TcpListener) -> WebSocketStream<TcpStream> {
    let (tcp, _) = listener.accept().await.expect("a connection");
    #[allow(clippy::result_large_err, reason = "the library's signature")]
    let choose = |_: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        let protocol = "orbit.events.v1".parse().expect("a header");
        response.headers_mut().insert("sec-websocket-protocol", protocol);
        Ok(response)
    };
    tokio_tungstenite::accept_hdr_async(tcp, choose).await.expect("an upgrade")
}

async fn client_frame(socket: &mut WebSocketStream<TcpStream>) -> ClientFrame {
    let message = socket.next().await.expect("open").expect("well-formed");
    wire::decode_client(message.to_text().expect("text")).expect("a frame of the contract")
}

async fn send(socket: &mut WebSocketStream<TcpStream>, frame: &ServerFrame) {
    socket.send(Message::text(wire::encode_server(frame))).await.expect("open");
}

#[actix_rt::test]
async fn tungstenite_serves_a_whole_session() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("ws://{}", listener.local_addr().expect("bound"));
    let credential = Credential::new("credential").expect("a credential");
    let client = Client::builder(url).credential(credential).build().expect("options");
    let consume = async {
        let connection = client.dial_events(registration(4)).await.expect("welcomed");
        for _ in 0..100 {
            let received = connection.next().await.expect("a delivery");
            connection.ack(MessageId::new(), received.proof()).await.expect("confirmed");
        }
        connection.close().await;
    };
    let serve = async {
        let mut socket = accept(&listener).await;
        let ClientFrame::Register(register) = client_frame(&mut socket).await else { panic!("not a register") };
        send(&mut socket, &ServerFrame::Welcome(frames::welcome(&register))).await;
        for n in 1..=100 {
            socket.send(Message::Ping(vec![1, 2].into())).await.expect("open");
            send(&mut socket, &frames::delivery(n)).await;
            assert_eq!(socket.next().await.expect("open").expect("well-formed"), Message::Pong(vec![1, 2].into()));
            let ClientFrame::Ack(ack) = client_frame(&mut socket).await else { panic!("not an ack") };
            send(&mut socket, &frames::acked(&ack)).await;
        }
        // The close handshake is as RFC 6455 wants it: a close, its answer, then the end.
        assert!(matches!(socket.next().await, Some(Ok(Message::Close(Some(frame)))) if u16::from(frame.code) == 1000));
        assert!(socket.next().await.is_none());
    };
    tokio::join!(consume, serve);
}
