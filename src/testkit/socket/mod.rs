//! The scripted platform on a real socket: a listener, a timer, and a task a connection, all on one thread.

mod connection;
mod frames;
mod handshake;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use super::gate::Gate;
use super::rules::{ConnectionId, Output, Rules};

/// How long a listener rests that could not accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

/// What the threads share: the rules, and where each connection's outputs go.
pub(crate) struct Hub {
    state: Mutex<State>,
    /// The next deadline may have changed.
    touched: Notify,
}

struct State {
    rules: Rules,
    wires: BTreeMap<ConnectionId, mpsc::UnboundedSender<Output>>,
    credential: String,
    /// Numbers the frames of new connections, where somebody counts.
    gate: Option<Arc<Gate>>,
}

impl Hub {
    pub(crate) fn new(rules: Rules) -> Self {
        let state = State { rules, wires: BTreeMap::new(), credential: fresh_credential(), gate: None };
        Self { state: Mutex::new(state), touched: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets something happen, and hands out what follows from it.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut Rules, Instant) -> T) -> T {
        let done = {
            let mut state = self.state();
            let done = act(&mut state.rules, Instant::now());
            while let Some((id, output)) = state.rules.poll_output() {
                // A connection that has gone is what a cut comes to. What waits is bounded by the sessions' credit.
                let _ = state.wires.get(&id).map(|wire| wire.send(output));
            }
            done
        };
        self.touched.notify_one();
        done
    }

    /// Lets another process take the place of the one before: its frames are numbered, and the credential changes, so
    /// that a dead process which comes back is no longer let in.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(crate) fn admit(&self, gate: Arc<Gate>) {
        let mut state = self.state();
        state.gate = Some(gate);
        state.credential = fresh_credential();
    }

    /// The credential that is accepted.
    pub(crate) fn credential(&self) -> String {
        self.state().credential.clone()
    }

    fn gate(&self) -> Option<Arc<Gate>> {
        self.state().gate.clone()
    }

    fn attach(&self, id: ConnectionId) -> mpsc::UnboundedReceiver<Output> {
        let (sender, outputs) = mpsc::unbounded_channel();
        self.state().wires.insert(id, sender);
        self.act(|rules, now| rules.upgraded(id, now));
        outputs
    }

    fn detach(&self, id: ConnectionId) {
        self.state().wires.remove(&id);
        self.act(|rules, _| rules.gone(id));
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.state().rules.poll_timeout()
    }
}

fn fresh_credential() -> String {
    format!("testkit-{:032x}", rand::random::<u128>())
}

/// Accepts connections and keeps the time until it is dropped. Must be called on a runtime.
pub(crate) async fn serve(hub: Arc<Hub>, listener: std::net::TcpListener) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    tokio::join!(accept(&hub, &listener), keep_time(&hub));
    Ok(())
}

async fn accept(hub: &Arc<Hub>, listener: &TcpListener) {
    loop {
        // Whoever is gone again before it was accepted is no reason to end.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        let _ = socket.set_nodelay(true);
        tokio::spawn(connection::serve(Arc::clone(hub), socket));
    }
}

async fn keep_time(hub: &Hub) {
    loop {
        let due = hub.next_timeout();
        tokio::select! {
            () = hub.touched.notified() => continue,
            () = until(due) => {}
        }
        hub.act(Rules::timed_out);
    }
}

/// Waits for a time, or for ever where there is none.
pub(crate) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Ends a connection so that the peer reads what was sent: one that is dropped with unread bytes takes it along.
pub(crate) async fn part(socket: &mut TcpStream, limit: Duration) {
    let leaves = async {
        let mut rest = [0; 1024];
        let _ = socket.shutdown().await;
        while socket.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    };
    let _ = tokio::time::timeout(limit, leaves).await;
}
