//! A link to a database server whose requests are points: each can be lost on its way, or its answer can.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::engine::Carrier;
use super::packet::Requests;
use crate::sql::EngineName;
use crate::testkit::gate::Gate;

/// How long a server may take to end a connection that its client has left.
const PARTING: Duration = Duration::from_secs(5);

/// Begins to carry connections to a server. Gives the port to connect to.
pub(super) async fn to(
    engine: EngineName,
    server: (String, u16),
    gate: Arc<Gate>,
) -> Result<(u16, Carrier), std::io::Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let task = tokio::spawn(async move {
        // They end with this task.
        let mut carried = JoinSet::new();
        loop {
            let Ok((client, _)) = listener.accept().await else { return };
            if gate.is_dead() {
                continue;
            }
            let Ok(server) = TcpStream::connect((server.0.as_str(), server.1)).await else { continue };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            carried.spawn(carry(client, server, Arc::clone(&gate), Requests::new(engine)));
            while carried.try_join_next().is_some() {}
        }
    });
    Ok((port, Carrier(task.abort_handle())))
}

async fn carry(mut client: TcpStream, mut server: TcpStream, gate: Arc<Gate>, mut requests: Requests) {
    let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
    let mut asked: Option<String> = None;
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(read @ 1..) = read else { return };
                let name = requests.name(&up[..read]);
                if gate.pass(|| format!("before {name}")).is_err() || server.write_all(&up[..read]).await.is_err() {
                    return;
                }
                asked = Some(name);
            }
            read = server.read(&mut down) => {
                let Ok(read @ 1..) = read else { return };
                if let Some(name) = asked.take()
                    && gate.pass(|| format!("after {name}")).is_err()
                {
                    return finish(server).await;
                }
                if client.write_all(&down[..read]).await.is_err() {
                    return;
                }
            }
            () = gate.died() => return,
        }
    }
}

/// Lets the server work on what it has, while nobody listens any more: its end comes when it has.
async fn finish(mut server: TcpStream) {
    let ends = async {
        let mut rest = [0; 1024];
        let _ = server.shutdown().await;
        while server.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    };
    let _ = timeout(PARTING, ends).await;
}
