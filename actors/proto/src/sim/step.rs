//! Everything that can happen in a simulated world.

use crate::consumer::{Epoch, HandlerOutcome, Input, Role, RunId};
use crate::proof::EventProof;
use crate::scalar::MessageId;
use crate::session::server::{AckVerdict, Refusal};
use crate::wire::{Ack, CloseCode, Register};

/// One life of one consumer process: a crash ends the life, a restart begins the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub(super) process: usize,
    pub(super) number: u32,
}

/// Names a TCP connection of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnId(pub(super) u64);

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

/// What travels on a connection.
#[derive(Debug)]
pub(super) enum Message {
    Text(String),
    Close(CloseCode),
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A connection breaks; both ends learn of it, each in its own time.
    Cut,
    /// One direction of a connection swallows everything from now on, and nobody is told.
    HalfOpen,
    /// The server loses its sessions and keeps its store.
    ServerCrash,
    /// The server closes its sessions in order.
    ServerRestart,
    /// A consumer process dies.
    ProcessCrash,
    /// A child of a consumer crashes.
    ChildCrash(Role),
    /// A child crashes again and again.
    CrashLoop(Role),
    /// An acknowledger loses a proof, and lives.
    ProofMislaid,
    /// A connection loses the news of its own end, and lives.
    EndMislaid,
    /// The subscription actor itself crashes.
    ShellCrash,
    /// A consumer is asked to stop.
    Stop,
    /// Somebody pauses the subscription for a while.
    Pause,
    /// Somebody revokes the credential until the world heals.
    Revoke,
    /// Somebody seeks back.
    Seek,
    /// A delivery is handed to a consumer a second time.
    Replay,
    /// A mailbox hands over news of a connection that has ended.
    LateNews,
}

/// One thing that happens.
#[derive(Debug)]
pub(super) enum Step {
    /// The platform writes the next event.
    Publish,
    /// A consumer's machine hears an input.
    Hear { life: Life, input: Input },
    /// A consumer's one timer is due.
    Wake { life: Life, token: u64 },
    /// The WebSocket of a dial stands, or is refused.
    DialEnds { life: Life, epoch: Epoch, capacity: u8 },
    /// A closed connection's reader has ended.
    ReaderEnds { life: Life, epoch: Epoch },
    /// A proof of the acknowledger reaches the connection's queue.
    SendAck { life: Life, epoch: Epoch, proof: EventProof, carrier: u64 },
    /// The heartbeat beats.
    Beat { life: Life, epoch: Epoch, token: u64 },
    /// A message arrives.
    Arrive { conn: ConnId, at: End, message: Message },
    /// An end learns that its connection is broken.
    Broken { conn: ConnId, at: End },
    /// A deadline of an end's session may be due.
    SessionTimer { conn: ConnId, at: End },
    /// The server has looked a subscription up.
    Registered { conn: ConnId, register: Register },
    /// The store judges a proof.
    Judge { conn: ConnId, boot: u32, ack: Ack },
    /// The verdict, durable by now, reaches the session.
    Judged { conn: ConnId, message_id: MessageId, verdict: AckVerdict },
    /// A ping's credential was checked.
    Checked { conn: ConnId, message_id: MessageId, checked: Result<bool, Refusal> },
    /// Leases lapse, backoffs end, credit is free.
    Sweep { token: u64 },
    /// A handler's transaction commits, if its process lives.
    RunCommits { life: Life, run: RunId },
    /// A handler ends.
    RunEnds { life: Life, run: RunId, outcome: HandlerOutcome },
    /// Something goes wrong.
    Fault(Fault),
    /// The server is back.
    ServerUp,
    /// The subscription is enabled again.
    Resume,
    /// A process is started again.
    Restart { process: usize },
    /// From here on nothing goes wrong any more.
    Heal,
    /// Everything should be done by now: all consumers are stopped.
    StopAll,
}
