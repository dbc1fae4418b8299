//! One connection: its handshake, its frames in both directions, and what the script does to its bytes.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use perilune_proto::instant::later;
use perilune_proto::wire::CloseCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::frames::{self, Incoming, Reader};
use super::handshake::{self, Request};
use super::{Hub, part, until};
use crate::testkit::gate::{Gate, Struck};
use crate::testkit::rules::{ConnectionId, Output};
use crate::testkit::script::DialFault;

/// Unread bytes that are kept: a whole message and its header.
const UNREAD_BYTES_MAX: usize = 1 << 20;

/// A connection is over.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl From<Struck> for Over {
    fn from(_: Struck) -> Self {
        Self
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(hub: Arc<Hub>, mut socket: TcpStream) {
    let gate = hub.gate();
    if gate.as_ref().is_some_and(|gate| gate.is_dead()) {
        return;
    }
    let (id, fault) = hub.act(|rules, _| rules.dialled());
    let mut unread = BytesMut::new();
    let budget = match fault {
        Some(DialFault::Hang) => {
            // Whoever waits here gives up; the platform does not.
            while socket.read_buf(&mut unread).await.is_ok_and(|read| read > 0) {
                unread.clear();
            }
            return;
        }
        Some(DialFault::CutAfter(bytes)) => Some(bytes),
        _ => None,
    };
    let Ok(request) = Request::read(&mut socket, &mut unread).await else { return };
    let answer = match fault {
        Some(DialFault::Refuse(status)) => Err(status),
        _ => request.answer(&hub.credential()),
    };
    let mut connection = Connection { socket, unread, budget, gate, hub, id };
    match answer {
        Err(status) => {
            let _ = connection.write(&handshake::refusal(status)).await;
            part(&mut connection.socket, handshake::LEAVING).await;
        }
        Ok(head) => {
            let outputs = connection.hub.attach(id);
            if connection.write(&head).await.is_ok() {
                let _ = connection.converse(outputs).await;
            }
            connection.hub.detach(id);
        }
    }
}

struct Connection {
    socket: TcpStream,
    unread: BytesMut,
    /// Bytes that may still be written, where the script limits them.
    budget: Option<usize>,
    gate: Option<Arc<Gate>>,
    hub: Arc<Hub>,
    id: ConnectionId,
}

impl Connection {
    /// Carries frames until the connection is over.
    async fn converse(&mut self, mut outputs: tokio::sync::mpsc::UnboundedReceiver<Output>) -> Result<(), Over> {
        let mut reader = Reader::default();
        let mut stalled: Option<Instant> = None;
        let mut waiting: VecDeque<Output> = VecDeque::new();
        let mut due: Option<Instant> = None;
        let gate = self.gate.clone();
        loop {
            // In order: whatever waits for its time holds up what comes behind it.
            while due.is_none_or(|due| due <= Instant::now())
                && let Some(output) = waiting.pop_front()
            {
                due = None;
                match output {
                    Output::Send { text, after, cut_after } if after > Duration::ZERO => {
                        due = Some(later(Instant::now(), after));
                        waiting.push_front(Output::Send { text, after: Duration::ZERO, cut_after });
                    }
                    Output::Stall(time) => stalled = Some(later(Instant::now(), time)),
                    output => self.put(output).await?,
                }
            }
            let reads = stalled.is_none_or(|until| until <= Instant::now());
            if reads {
                stalled = None;
                while let Some(incoming) = reader.next(&mut self.unread) {
                    self.hear(incoming).await?;
                }
            }
            let wake = due.filter(|_| !waiting.is_empty()).into_iter().chain(stalled).min();
            tokio::select! {
                output = outputs.recv() => waiting.push_back(output.ok_or(Over)?),
                read = self.socket.read_buf(&mut self.unread), if reads => {
                    if read? == 0 || self.unread.len() > UNREAD_BYTES_MAX {
                        return Err(Over);
                    }
                }
                () = until(wake) => {}
                () = died(gate.as_deref()) => return Err(Over),
            }
        }
    }

    async fn hear(&mut self, incoming: Incoming) -> Result<(), Over> {
        let id = self.id;
        match incoming {
            Incoming::Text(text) => {
                let name = frame_name(&text).to_owned();
                self.pass(|| format!("before the platform gets `{name}`"))?;
                self.hub.act(|rules, now| rules.text(id, &text, now));
                self.pass(|| format!("after the platform got `{name}`"))
            }
            Incoming::Broken(error) => {
                self.hub.act(|rules, now| rules.broken(id, &error, now));
                Ok(())
            }
            Incoming::Ping(payload) => self.write(&frames::pong(&payload)).await,
            Incoming::Close(payload) => {
                self.write(&frames::close_again(&payload)).await?;
                Err(Over)
            }
            Incoming::Garbage => {
                self.write(&frames::close(CloseCode::PROTOCOL)).await?;
                part(&mut self.socket, handshake::LEAVING).await;
                Err(Over)
            }
        }
    }

    async fn put(&mut self, output: Output) -> Result<(), Over> {
        match output {
            Output::Send { text, cut_after, .. } => {
                let name = frame_name(&text);
                self.pass(|| format!("before `{name}` is sent"))?;
                if let Some(bytes) = cut_after {
                    self.budget = Some(self.budget.map_or(bytes, |budget| budget.min(bytes)));
                }
                self.write(&frames::text(&text)).await?;
                if cut_after.is_some() {
                    return Err(Over);
                }
                self.pass(|| format!("after `{name}` was sent"))
            }
            Output::Close(code) => {
                self.write(&frames::close(code)).await?;
                part(&mut self.socket, handshake::LEAVING).await;
                Err(Over)
            }
            Output::Cut => Err(Over),
            Output::Stall(_) => Ok(()),
        }
    }

    fn pass(&self, point: impl FnOnce() -> String) -> Result<(), Over> {
        self.gate.as_ref().map_or(Ok(()), |gate| gate.pass(point).map_err(Over::from))
    }

    /// Writes as much as the script allows; it is over where that is not all.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), Over> {
        let allowed = self.budget.map_or(bytes.len(), |budget| budget.min(bytes.len()));
        self.socket.write_all(&bytes[..allowed]).await?;
        if let Some(budget) = &mut self.budget {
            *budget -= allowed;
        }
        if allowed < bytes.len() { Err(Over) } else { Ok(()) }
    }
}

async fn died(gate: Option<&Gate>) {
    match gate {
        Some(gate) => gate.died().await,
        None => std::future::pending().await,
    }
}

/// A frame's type. Our writer and the client's put it first.
fn frame_name(text: &str) -> &str {
    text.strip_prefix(r#"{"type":""#).and_then(|rest| rest.split('"').next()).unwrap_or("a frame")
}
