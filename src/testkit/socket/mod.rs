//! The scripted platform on a real socket: a listener, a timer, and a task a connection, all on one thread.

mod connection;
mod frames;
mod handshake;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use super::gate::Gate;
use super::rules::{ConnectionId, Output, Rules};

/// What the threads share: the rules, and where each connection's outputs go.
pub(crate) struct Hub {
    state: Mutex<State>,
    /// The next deadline may have changed.
    touched: Notify,
    pub(crate) credential: String,
}

struct State {
    rules: Rules,
    wires: BTreeMap<ConnectionId, mpsc::UnboundedSender<Output>>,
    /// Numbers the frames of new connections, where somebody counts.
    gate: Option<Arc<Gate>>,
}

impl Hub {
    pub(crate) fn new(rules: Rules, credential: String) -> Self {
        let state = State { rules, wires: BTreeMap::new(), gate: None };
        Self { state: Mutex::new(state), touched: Notify::new(), credential }
    }

    /// Lets something happen, and hands out what follows from it.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut Rules, Instant) -> T) -> T {
        let done = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Numbers the frames of the connections that are made from now on.
    pub(crate) fn set_gate(&self, gate: Option<Arc<Gate>>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).gate = gate;
    }

    fn gate(&self) -> Option<Arc<Gate>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).gate.clone()
    }

    fn attach(&self, id: ConnectionId) -> mpsc::UnboundedReceiver<Output> {
        let (sender, outputs) = mpsc::unbounded_channel();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).wires.insert(id, sender);
        self.act(|rules, now| rules.upgraded(id, now));
        outputs
    }

    fn detach(&self, id: ConnectionId) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).wires.remove(&id);
        self.act(|rules, _| rules.gone(id));
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).rules.poll_timeout()
    }
}

/// Accepts connections and keeps the time until it is dropped. Must be called on a runtime.
pub(crate) async fn serve(hub: Arc<Hub>, listener: std::net::TcpListener) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let accepts = async {
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::spawn(connection::serve(Arc::clone(&hub), socket));
        }
    };
    tokio::select! {
        ended = accepts => ended,
        () = keep_time(&hub) => Ok(()),
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

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
