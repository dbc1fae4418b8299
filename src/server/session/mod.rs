//! One WebSocket session: drives `proto::session::server` between a socket and the store.
//!
//! The machine decides; this task carries messages in, effects out, and questions to the store. It runs on the
//! thread of its connection. What it waits for is one `select!` in [`Session::serve`].
//!
//! - [`answer`]: the store's answers as the machine's.
//! - [`seat`]: the session's place among those of its subscription.

mod answer;
mod seat;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use perilune_proto::limits::FRAME_BYTES_MAX;
use perilune_proto::session::ServerSession;
use perilune_proto::session::server::{Effect, Terms};
use perilune_proto::wire::{CloseCode, FrameError};
use tokio::time::{Instant, sleep_until, timeout};

use self::answer::Answered;
use self::seat::{Seat, Seating};
use super::connection::Wire;
use super::gate::Pass;
use super::metrics::Ended;
use super::socket::inlet::{Inlet, Input};
use super::socket::outbox::Outbox;
use super::socket::read::{Breach, Incoming};
use super::socket::write;
use super::state::{Phase, State};
use super::store::SecretHash;

/// A client for which more waits is cut off: two frames of the largest size.
const WAITING_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;
/// How long a closing server waits for the client's close. A connection that is dropped earlier may take the
/// frames with it that the client has yet to read.
const CLOSE_WAIT: Duration = Duration::from_secs(3);
/// How long it then waits for the connection's end.
const LINGER: Duration = Duration::from_secs(1);
/// How long a stopping server waits for what the store was asked.
const ANSWERS_WAIT: Duration = Duration::from_secs(2);

/// What a session is made of.
pub(crate) struct Parts {
    pub(crate) state: Arc<State>,
    pub(crate) presented: SecretHash,
    pub(crate) pass: Pass,
    pub(crate) inlet: Inlet,
    pub(crate) outbox: Outbox,
    pub(crate) wire: Rc<Wire>,
}

/// How a session ends on the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Farewell {
    /// With a close of ours.
    Close(CloseCode),
    /// With the answer to the client's close.
    Answer(Option<u16>),
    /// Without a word.
    None,
}

enum Event {
    Stop,
    Seating(Seating),
    Answered(Answered),
    Input(Input),
    Gone,
    Timer,
}

struct Session {
    state: Arc<State>,
    presented: SecretHash,
    machine: ServerSession,
    outbox: Outbox,
    wire: Rc<Wire>,
    questions: FuturesUnordered<LocalBoxFuture<'static, Answered>>,
    seat: Option<Seat>,
    cause: Ended,
}

/// Runs a session to its end. The connection is over when it returns, or will be in a second.
pub(crate) async fn run(parts: Parts) {
    let Parts { state, presented, pass, mut inlet, outbox, wire } = parts;
    state.metrics.sessions_opened.increment(1);
    let config = &state.config;
    let terms = Terms { heartbeat_interval_ms: config.heartbeat_ms, lease_ms: config.lease_ms };
    let mut session = Session {
        machine: ServerSession::new(terms, std::time::Instant::now()),
        questions: FuturesUnordered::new(),
        seat: None,
        cause: Ended::Lost,
        state: Arc::clone(&state),
        presented,
        outbox,
        wire,
    };
    let farewell = session.serve(&mut inlet).await;
    // No further delivery is leased for it, while the goodbye takes its time.
    session.seat = None;
    state.metrics.ended(session.cause);
    tracing::debug!(cause = ?session.cause, "a session ended");
    session.part(farewell, inlet, pass).await;
}

impl Session {
    /// Serves until the session is over.
    async fn serve(&mut self, inlet: &mut Inlet) -> Farewell {
        let mut phase = self.state.phase.subscribe();
        loop {
            if let Some(farewell) = self.carry_out() {
                return farewell;
            }
            let timer = self.machine.poll_timeout().map(|(at, _)| Instant::from_std(at));
            let event = tokio::select! {
                _ = phase.wait_for(|phase| *phase == Phase::Stopping) => Event::Stop,
                seating = seat::next(&mut self.seat, &self.outbox) => Event::Seating(seating),
                Some(answered) = self.questions.next(), if !self.questions.is_empty() => Event::Answered(answered),
                input = inlet.next() => Event::Input(input),
                () = self.outbox.gone() => Event::Gone,
                () = until(timer) => Event::Timer,
            };
            if let Some(farewell) = self.handle(event).await {
                return farewell;
            }
        }
    }

    async fn handle(&mut self, event: Event) -> Option<Farewell> {
        let now = std::time::Instant::now();
        match event {
            Event::Stop => return self.stop().await,
            Event::Seating(Seating::Ended(refusal)) => self.machine.end(refusal),
            Event::Seating(Seating::Granted(grant)) => self.deliver(grant, now),
            Event::Answered(answered) => self.take(answered, now),
            Event::Timer => self.machine.timed_out(now),
            Event::Input(Input::Message(message)) => return self.hear(message, now),
            Event::Input(Input::Breach(breach)) => return self.refuse(breach),
            Event::Input(Input::Lost) | Event::Gone => {
                self.machine.gone();
                self.cause = if self.wire.stalled() { Ended::SlowReader } else { Ended::Lost };
                return Some(Farewell::None);
            }
        }
        None
    }

    fn hear(&mut self, message: Incoming, now: std::time::Instant) -> Option<Farewell> {
        match message {
            Incoming::Text(text) => self.machine.text(&text, now),
            Incoming::Ping(payload) => self.outbox.push(write::pong(&payload)),
            Incoming::Pong => {}
            Incoming::Close(code) => {
                self.machine.gone();
                self.cause = Ended::Closed;
                return Some(Farewell::Answer(code));
            }
        }
        None
    }

    fn refuse(&mut self, breach: Breach) -> Option<Farewell> {
        let error = match breach {
            Breach::TooLarge => FrameError::TooLong,
            Breach::Binary => FrameError::Binary,
            Breach::InvalidText => FrameError::NotUtf8,
            // RFC 6455 itself was broken: whoever did so may read no frame either.
            Breach::Protocol(what) => {
                tracing::debug!(what, "a client broke rfc 6455");
                self.cause = Ended::Protocol;
                return Some(Farewell::Close(breach.close_code()));
            }
        };
        self.machine.broken(&error);
        None
    }

    /// Carries the machine's effects out. Gives the end, once there is one.
    fn carry_out(&mut self) -> Option<Farewell> {
        while let Some(effect) = self.machine.poll_effect() {
            match effect {
                Effect::Send(text) => self.outbox.push(write::text(&text)),
                Effect::Close(code) => {
                    self.cause = cause_of(code);
                    return Some(Farewell::Close(code));
                }
                question => self.questions.extend(answer::ask(&self.state, self.presented, &self.machine, question)),
            }
        }
        if self.outbox.waiting_bytes() > WAITING_BYTES_MAX {
            self.wire.cut();
            self.cause = Ended::SlowReader;
            return Some(Farewell::None);
        }
        None
    }

    /// Answers what was asked before the server was told to stop, then ends. Gives the end where an answer was one.
    async fn stop(&mut self) -> Option<Farewell> {
        let answers = async {
            while let Some(answered) = self.questions.next().await {
                if !matches!(answered, Answered::Register(..)) {
                    self.take(answered, std::time::Instant::now());
                }
                if let Some(farewell) = self.carry_out() {
                    return Some(farewell);
                }
            }
            None
        };
        // What the store has not answered by then, the client asks again elsewhere.
        if let Ok(Some(farewell)) = timeout(ANSWERS_WAIT, answers).await {
            return Some(farewell);
        }
        self.machine.shut_down();
        None
    }

    /// Says goodbye and lets the connection go.
    async fn part(self, farewell: Farewell, mut inlet: Inlet, pass: Pass) {
        match farewell {
            Farewell::Close(code) => {
                self.outbox.push(write::close(code));
                let _closed = timeout(CLOSE_WAIT, inlet.drain()).await;
            }
            Farewell::Answer(Some(code)) => self.outbox.push(write::close(CloseCode(code))),
            Farewell::Answer(None) => self.outbox.push(write::close_without_code()),
            Farewell::None => {}
        }
        let Self { outbox, wire, .. } = self;
        // The place is free again, however long the connection lingers.
        drop((outbox, inlet, pass));
        tokio::time::sleep(LINGER).await;
        // Gone by now, unless the client reads nothing.
        wire.cut();
    }
}

const fn cause_of(code: CloseCode) -> Ended {
    match code {
        CloseCode::AWAY => Ended::Silent,
        CloseCode::RESTART => Ended::Shutdown,
        CloseCode::POLICY | CloseCode::TRY_AGAIN => Ended::Refused,
        _ => Ended::Protocol,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
