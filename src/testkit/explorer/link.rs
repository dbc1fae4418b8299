//! A link to a database server whose requests are points: each can be lost on its way, or its answer can.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::packet::Requests;
use crate::sql::EngineName;
use crate::testkit::gate::Gate;
use crate::testkit::socket::part;

/// How long a server may take to end a connection that its client has left.
const PARTING: Duration = Duration::from_secs(5);

/// Begins to carry connections to a server, for as long as the task lives. Gives the port to connect to.
pub(super) async fn to(
    engine: EngineName,
    server: (String, u16),
    gate: Arc<Gate>,
) -> Result<(u16, JoinSet<()>), std::io::Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let mut carrier = JoinSet::new();
    carrier.spawn(async move {
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
    Ok((port, carrier))
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
                    // It works on what it has, while nobody listens any more: its end comes when it has done so.
                    return part(&mut server, PARTING).await;
                }
                if client.write_all(&down[..read]).await.is_err() {
                    return;
                }
            }
            () = gate.died() => return,
        }
    }
}
