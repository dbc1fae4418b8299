//! `Connection`: one socket at a time. It dials, reads, correlates replies and reports the end; it decides nothing.
//!
//! Every epoch that it is asked to dial ends with exactly one [`ConnectionEnded`], after which it says nothing more
//! about it. Its own crash is told by its exit guard instead.

mod attendant;

use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use actix::WeakRecipient;
use actix::prelude::*;
use futures_util::FutureExt as _;
use perilune_client::NewMessageId as _;
use perilune_client::{Client, Connection as Session, ConnectionError, DialError, EventRegistration, MessageId};
use perilune_proto::EventProof;
use perilune_proto::consumer::{CauseCode, Delivered, DisconnectCause, Enabled, Epoch, PingAnswer};
use perilune_proto::scalar::SubscriptionId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use crate::acknowledger::AcksAnswered;
use crate::cause::{cause_of_connection, cause_of_dial, cause_of_request};
use crate::custody::ExitGuard;
use attendant::{Asker, Attendant};

/// Owns one socket. One a subscription.
pub(crate) struct Connection {
    client: Client,
    subscription_id: SubscriptionId,
    reader: ReaderSlot,
    up: ConnectionLinks,
    link: Link,
    _exit: ExitGuard,
}

/// Whom a connection tells what.
#[derive(Clone)]
pub(crate) struct ConnectionLinks {
    pub(crate) connected: WeakRecipient<Connected>,
    pub(crate) delivered: WeakRecipient<DeliveriesArrived>,
    pub(crate) ended: WeakRecipient<ConnectionEnded>,
}

enum Link {
    Down,
    /// The dial runs as a task of its own: it calls the user's credential provider.
    #[expect(dead_code, reason = "held for its drop")]
    Dialling(Epoch, Abort),
    Up(Epoch, Open),
}

/// An open session and the task beside it.
struct Open {
    session: OpenSession,
    asker: Asker,
    _attendant: Abort,
}

/// A session that is closed when it is dropped, whoever else still waits for an answer on it.
struct OpenSession(Session);

impl Drop for OpenSession {
    fn drop(&mut self) {
        // The first poll asks for the close; its end is awaited elsewhere.
        let _ = self.0.close().now_or_never();
    }
}

/// Lets one reader live at a time, however its actor ends: a dial waits for the reader before it. Outlives the actor.
pub(crate) type ReaderSlot = Arc<Semaphore>;

/// What a dial brings: the session, and the slot until its reader has ended.
type Dialled = Result<(Session, Option<OwnedSemaphorePermit>), DialError>;

/// Ends a task when it is dropped, so that no dial outlives its actor.
struct Abort(tokio::task::AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    pub(crate) const fn new(
        client: Client,
        subscription_id: SubscriptionId,
        reader: ReaderSlot,
        up: ConnectionLinks,
        exit: ExitGuard,
    ) -> Self {
        Self { client, subscription_id, reader, up, link: Link::Down, _exit: exit }
    }

    fn dialled(&mut self, epoch: Epoch, dialled: Result<Dialled, JoinError>, ctx: &mut Context<Self>) {
        if !matches!(self.link, Link::Dialling(dialling, _) if dialling == epoch) {
            // Given up meanwhile; the end was reported then.
            return;
        }
        match dialled {
            Ok(Ok((session, slot))) => self.opened(epoch, session, slot, ctx),
            Ok(Err(error)) => self.end(epoch, Phase::Dialling, cause_of_dial(&error), Some(Arc::new(error))),
            // The dial's own code panicked: not the user's, which the client contains.
            Err(_) => self.end(epoch, Phase::Dialling, CauseCode::Network.into(), None),
        }
    }

    fn opened(&mut self, epoch: Epoch, session: Session, slot: Option<OwnedSemaphorePermit>, ctx: &mut Context<Self>) {
        let welcome = session.welcome();
        let connected =
            Connected { epoch, heartbeat_interval_ms: welcome.heartbeat_interval_ms, enabled: welcome.enabled.into() };
        // Before the reader starts, so that no delivery overtakes it.
        if let Some(up) = self.up.connected.upgrade() {
            up.do_send(connected);
        }
        let asker = Asker::default();
        let attendant = Attendant::new(epoch, session.clone(), Rc::clone(&asker), self.up.delivered.clone());
        let attends = actix_rt::spawn(attendant.attend());
        let attendant = Abort(attends.abort_handle());
        ctx.spawn(attends.into_actor(self).map(move |ended, actor, ctx| actor.session_over(epoch, ended, ctx)));
        let watched = session.clone();
        actix_rt::spawn(async move {
            watched.closed().await;
            drop(slot);
        });
        self.link = Link::Up(epoch, Open { session: OpenSession(session), asker, _attendant: attendant });
    }

    fn session_over(&mut self, epoch: Epoch, ended: Result<ConnectionError, JoinError>, ctx: &mut Context<Self>) {
        if self.open(epoch).is_none() {
            return;
        }
        match ended {
            Ok(error) => self.end(epoch, Phase::Open, cause_of_connection(&error), Some(Arc::new(error))),
            // The task panicked: the exit guard tells.
            Err(_) => ctx.stop(),
        }
    }

    fn end(
        &mut self,
        epoch: Epoch,
        phase: Phase,
        cause: DisconnectCause,
        source: Option<Arc<dyn Error + Send + Sync>>,
    ) {
        self.link = Link::Down;
        tracing::debug!(
            subscription_id = %self.subscription_id,
            epoch = epoch.0,
            cause = crate::cause::label(&cause.code),
            "perilune.connection_ended"
        );
        if let Some(up) = self.up.ended.upgrade() {
            up.do_send(ConnectionEnded { epoch, phase, cause, source });
        }
    }

    fn open(&self, epoch: Epoch) -> Option<&Open> {
        match &self.link {
            Link::Up(up, open) if *up == epoch => Some(open),
            _ => None,
        }
    }
}

impl Actor for Connection {
    type Context = Context<Self>;
}

/// To [`Connection`]: open a session under this number. Answered by [`Connected`] or [`ConnectionEnded`].
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Dial {
    /// The new connection's number.
    pub epoch: Epoch,
    /// The `register`'s capacity.
    pub capacity: u8,
}

impl Handler<Dial> for Connection {
    type Result = ();

    fn handle(&mut self, message: Dial, ctx: &mut Context<Self>) {
        let Dial { epoch, capacity } = message;
        let client = self.client.clone();
        let registration = EventRegistration { subscription_id: self.subscription_id, capacity };
        let reader = Arc::clone(&self.reader);
        let dial = actix_rt::spawn(async move {
            // The semaphore is never closed.
            let slot = reader.acquire_owned().await.ok();
            client.dial_events(registration).await.map(|session| (session, slot))
        });
        // An earlier link, which the machine never leaves open, is dropped and so closed.
        self.link = Link::Dialling(epoch, Abort(dial.abort_handle()));
        ctx.spawn(dial.into_actor(self).map(move |dialled, actor, ctx| actor.dialled(epoch, dialled, ctx)));
    }
}

/// To [`Connection`]: close this connection, or give its dial up. Answered by its [`ConnectionEnded`].
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct CloseConnection {
    /// Which one; another one stays as it is.
    pub epoch: Epoch,
}

impl Handler<CloseConnection> for Connection {
    type Result = ();

    fn handle(&mut self, message: CloseConnection, ctx: &mut Context<Self>) {
        let epoch = message.epoch;
        match &self.link {
            Link::Dialling(dialling, _) if *dialling == epoch => {
                self.end(epoch, Phase::Dialling, CauseCode::Closed.into(), None);
            }
            Link::Up(up, open) if *up == epoch => {
                let session = open.session.0.clone();
                // The task beside it reports the end.
                ctx.spawn(async move { session.close().await }.into_actor(self));
            }
            _ => {}
        }
    }
}

/// To [`Connection`]: report these proofs, one in flight at a time, behind those that it has. Each that gets an answer
/// is answered in an [`AcksAnswered`], in order; those of a connection that has ended are not, and whether they were
/// taken is unknown.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SendAcks {
    /// On which connection.
    pub epoch: Epoch,
    /// What confirms the deliveries. At most the capacity.
    pub proofs: Vec<EventProof>,
    /// Who is told.
    pub answer_to: WeakRecipient<AcksAnswered>,
}

impl Handler<SendAcks> for Connection {
    type Result = ();

    fn handle(&mut self, message: SendAcks, _ctx: &mut Context<Self>) {
        if let Some(open) = self.open(message.epoch) {
            *open.asker.borrow_mut() = Some(message.answer_to);
            open.session.0.ack_in_turn(message.proofs);
        }
    }
}

/// To [`Connection`]: keep the session. Answered with what the platform said, or with nothing when the connection
/// ended first.
#[derive(Debug, Message)]
#[rtype(result = "Option<PingAnswer>")]
pub(crate) struct SendPing {
    /// On which connection.
    pub epoch: Epoch,
}

impl Handler<SendPing> for Connection {
    type Result = ResponseFuture<Option<PingAnswer>>;

    fn handle(&mut self, message: SendPing, _ctx: &mut Context<Self>) -> Self::Result {
        let session = self.open(message.epoch).map(|open| open.session.0.clone());
        Box::pin(async move {
            let session = session?;
            match session.ping(MessageId::new()).await {
                Ok(pong) => Some(PingAnswer::Pong(pong.enabled.into())),
                Err(error) => cause_of_request(&error).map(PingAnswer::Refused),
            }
        })
    }
}

/// From [`Connection`] to its subscription: the handshake ended with a `welcome`.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Connected {
    /// Which dial.
    pub epoch: Epoch,
    /// How often to ping, in milliseconds: 1,000 to 15,000.
    pub heartbeat_interval_ms: u32,
    /// Whether new deliveries come, as of the handshake.
    pub enabled: Enabled,
}

/// From [`Connection`] to its subscription: deliveries, in the order of their arrival.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct DeliveriesArrived {
    /// On which connection.
    pub epoch: Epoch,
    /// At most as many as the session's capacity allows to be outstanding.
    pub deliveries: Vec<Delivered>,
}

/// How far a connection had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There was no session yet.
    Dialling,
    /// There was one; its reader has ended.
    Open,
}

/// From [`Connection`] to its subscription: this connection is over. Nothing more comes from it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ConnectionEnded {
    /// Which one.
    pub epoch: Epoch,
    /// How far it had come.
    pub phase: Phase,
    /// Why, without remote text.
    pub cause: DisconnectCause,
    /// The client's own error, for whoever gets the run's.
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}
