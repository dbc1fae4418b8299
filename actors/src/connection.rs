//! `Connection`: one socket at a time. It dials, reads, correlates replies and reports the end; it decides nothing.
//!
//! Every epoch that it is asked to dial ends with exactly one [`ConnectionEnded`], after which it says nothing more
//! about it. Its own crash is told by its exit guard instead.

use std::error::Error;
use std::future::Future as _;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};

use actix::WeakRecipient;
use actix::prelude::*;
use futures_util::FutureExt as _;
use futures_util::stream::unfold;
use perilune_client::{Client, Connection as Session, ConnectionError, DialError, EventRegistration, MessageId};
use perilune_client::{NewMessageId as _, Received};
use perilune_proto::EventProof;
use perilune_proto::consumer::{AckAnswer, CauseCode, Delivered, DisconnectCause, Enabled, Epoch, PingAnswer, Replay};
use perilune_proto::scalar::SubscriptionId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use crate::cause::{cause_of_connection, cause_of_dial, cause_of_request};
use crate::custody::ExitGuard;

/// Deliveries handed on in one message: as many as a session can have outstanding.
const BATCH: usize = 32;

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

/// A session that is closed when it is dropped, whoever else still waits for an answer on it.
struct Open(Session);

impl Drop for Open {
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

/// What the reader finds.
enum Read {
    Deliveries(Vec<Received>),
    /// The read loop has ended and the socket is closed.
    End(ConnectionError),
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
        let reads = unfold(Some(session.clone()), move |session| async move {
            let session = session?;
            match read(&session).await {
                Ok(batch) => Some(((epoch, Read::Deliveries(batch)), Some(session))),
                Err(error) => {
                    session.closed().await;
                    Some(((epoch, Read::End(error)), None))
                }
            }
        });
        ctx.add_stream(reads);
        let watched = session.clone();
        actix_rt::spawn(async move {
            watched.closed().await;
            drop(slot);
        });
        self.link = Link::Up(epoch, Open(session));
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

    fn session(&self, epoch: Epoch) -> Option<Session> {
        match &self.link {
            Link::Up(up, session) if *up == epoch => Some(session.0.clone()),
            _ => None,
        }
    }
}

/// Waits for a delivery, then takes along what has come with it: one message up the tree for all of them.
async fn read(session: &Session) -> Result<Vec<Received>, ConnectionError> {
    let mut batch = vec![session.next().await?];
    while batch.len() < BATCH {
        // An error is found again by the next call.
        let Some(Ok(more)) = session.next().now_or_never() else { break };
        batch.push(more);
    }
    Ok(batch)
}

impl Actor for Connection {
    type Context = Context<Self>;
}

impl StreamHandler<(Epoch, Read)> for Connection {
    fn handle(&mut self, (epoch, read): (Epoch, Read), _ctx: &mut Context<Self>) {
        if self.session(epoch).is_none() {
            return;
        }
        match read {
            Read::Deliveries(batch) => {
                if let Some(up) = self.up.delivered.upgrade() {
                    let deliveries = batch.into_iter().map(delivered).collect();
                    up.do_send(DeliveriesArrived { epoch, deliveries });
                }
            }
            Read::End(error) => self.end(epoch, Phase::Open, cause_of_connection(&error), Some(Arc::new(error))),
        }
    }

    /// A session's reader has ended; the actor goes on.
    fn finished(&mut self, _ctx: &mut Context<Self>) {}
}

fn delivered(received: Received) -> Delivered {
    let lease = received.lease();
    let delivery = received.into_delivery();
    Delivered { proof: delivery.proof, event: Arc::new(delivery.event), lease }
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
            Link::Up(up, session) if *up == epoch => {
                let session = session.0.clone();
                // The reader reports the end.
                ctx.spawn(async move { session.close().await }.into_actor(self));
            }
            _ => {}
        }
    }
}

/// To [`Connection`]: report a proof under a new message id. Answered with what the platform said, or with nothing
/// when the connection ended first; whether the proof was taken is unknown then.
#[derive(Debug, Message)]
#[rtype(result = "Option<AckAnswer>")]
pub(crate) struct SendAck {
    /// On which connection.
    pub epoch: Epoch,
    /// What confirms the delivery.
    pub proof: EventProof,
}

impl Handler<SendAck> for Connection {
    type Result = ResponseFuture<Option<AckAnswer>>;

    fn handle(&mut self, message: SendAck, _ctx: &mut Context<Self>) -> Self::Result {
        let session = self.session(message.epoch);
        let mut answer = Box::pin(async move {
            let session = session?;
            match session.ack(MessageId::new(), &message.proof).await {
                Ok(receipt) if receipt.replayed => Some(AckAnswer::Confirmed { replay: Replay::Replayed }),
                Ok(_) => Some(AckAnswer::Confirmed { replay: Replay::First }),
                Err(error) if error.is_proof_lost() => Some(AckAnswer::Lost),
                Err(error) => cause_of_request(&error).map(AckAnswer::Refused),
            }
        });
        // The first poll hands the frame to the socket's task; the rest only waits. So the frame is on its way before
        // anything else that this thread has to do.
        match answer.as_mut().poll(&mut Task::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
            Poll::Pending => answer,
        }
    }
}

/// To [`Connection`]: keep the session. Answered as [`SendAck`] is.
#[derive(Debug, Message)]
#[rtype(result = "Option<PingAnswer>")]
pub(crate) struct SendPing {
    /// On which connection.
    pub epoch: Epoch,
}

impl Handler<SendPing> for Connection {
    type Result = ResponseFuture<Option<PingAnswer>>;

    fn handle(&mut self, message: SendPing, _ctx: &mut Context<Self>) -> Self::Result {
        let session = self.session(message.epoch);
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
