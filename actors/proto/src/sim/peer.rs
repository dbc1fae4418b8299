//! The client's side of connections: dials, heartbeats, proofs, and the real session machine.

use std::time::Duration;

use super::link::Conn;
use super::oracle::Check;
use super::plan::{SUBSCRIPTION, pick};
use super::server::Power;
use super::step::{ConnId, End, Life, Message, Step};
use super::world::World;
use crate::consumer::{CauseCode, Delivered, DisconnectCause, Enabled, Epoch, Input};
use crate::limits;
use crate::proof::EventProof;
use crate::scalar::MessageId;
use crate::session::client::Effect;
use crate::session::{ClientSession, ServerSession};
use crate::wire::{CloseCode, ErrorCode, Register, decode_server, encode_client};

impl World {
    pub(super) fn dial(&mut self, life: Life, epoch: Epoch, capacity: u8) {
        self.tally.dials += 1;
        let at = self.now + self.latency();
        if let Some(alive) = self.alive(life) {
            alive.dialling = Some(epoch);
        }
        self.agenda.plan(at, Step::DialEnds { life, epoch, capacity });
    }

    pub(super) fn on_dial_ends(&mut self, life: Life, epoch: Epoch, capacity: u8) {
        if self.alive(life).is_none_or(|alive| alive.dialling != Some(epoch)) {
            return;
        }
        let cause = self.dial_fails();
        let now = self.now;
        let terms = self.plan.terms;
        let Some(alive) = self.alive(life) else { return };
        alive.dialling = None;
        if let Some(cause) = cause {
            return self.tell(life, Input::DialFailed { epoch, cause });
        }
        let message_id = self.message_id();
        let register = Register { message_id, subscription_id: SUBSCRIPTION, capacity };
        let client = ClientSession::open(register, now + limits::HANDSHAKE_TIMEOUT, limits::CONTROL_REQUEST_TIMEOUT);
        self.last_conn += 1;
        let id = ConnId(self.last_conn);
        self.conns.insert(id, Conn::new(life, epoch, client, ServerSession::new(terms, now)));
        if let Some(alive) = self.alive(life) {
            alive.conn = Some(id);
        }
        self.drain_client(id);
        self.drain_server(id);
    }

    fn dial_fails(&mut self) -> Option<DisconnectCause> {
        if self.server.power == Power::Off || self.rng.chance(self.plan.chances.dial_fails) {
            return Some(CauseCode::Network.into());
        }
        if self.server.revoked && self.rng.chance(50) {
            return Some(CauseCode::Http { status: 401, code: Some(ErrorCode::Unauthenticated) }.into());
        }
        if self.rng.chance(self.plan.chances.dial_refused) {
            let status = [408, 429, 500, 503][pick(&mut self.rng, 4)];
            let cause = DisconnectCause::new(CauseCode::Http { status, code: None });
            let asked = Duration::from_millis(self.rng.within(&(0..=40_000)));
            return Some(if self.rng.chance(30) { cause.with_retry_after(asked) } else { cause });
        }
        None
    }

    pub(super) fn close(&mut self, life: Life, epoch: Epoch) {
        let at = self.now + self.rng.duration_within(&(Duration::ZERO..=Duration::from_millis(5)));
        let Some(alive) = self.alive(life) else { return };
        if alive.dialling == Some(epoch) {
            alive.dialling = None;
            return self.agenda.plan(at, Step::ReaderEnds { life, epoch });
        }
        let Some(id) = alive.conn else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        // Where the session has ended by itself, its end was told already.
        if conn.epoch == epoch && !*conn.over.of(End::Client) {
            conn.client.abandon();
            *conn.over.of_mut(End::Client) = true;
            self.send(id, End::Client, Message::Close(CloseCode::NORMAL));
            self.bury(id);
            self.agenda.plan(at, Step::ReaderEnds { life, epoch });
        }
    }

    pub(super) fn start_heartbeat(&mut self, life: Life, epoch: Epoch, interval: Duration) {
        let now = self.now;
        let Some(alive) = self.alive(life) else { return };
        alive.beat = Some((epoch, interval));
        alive.beat_token += 1;
        let token = alive.beat_token;
        self.agenda.plan(now + interval, Step::Beat { life, epoch, token });
    }

    pub(super) fn on_beat(&mut self, life: Life, epoch: Epoch, token: u64) {
        let message_id = self.message_id();
        let now = self.now;
        let Some(alive) = self.alive(life).filter(|alive| alive.beat_token == token) else { return };
        let Some((beating, interval)) = alive.beat else { return };
        let Some(id) = alive.conn.filter(|_| beating == epoch) else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.epoch == epoch && !*conn.over.of(End::Client) {
            // Busy is no reason to stop: the next beat comes.
            let _ = conn.client.ping(message_id, now);
            self.tally.pings += 1;
            self.drain_client(id);
        }
        self.agenda.plan(now + interval, Step::Beat { life, epoch, token });
    }

    pub(super) fn on_reader_ends(&mut self, life: Life, epoch: Epoch) {
        if self.alive(life).is_some_and(|alive| std::mem::take(&mut alive.mislays_end)) {
            return;
        }
        let cause = CauseCode::Closed.into();
        self.tell(life, Input::Disconnected { epoch, cause });
    }

    pub(super) fn on_send_ack(&mut self, life: Life, epoch: Epoch, proof: EventProof, carrier: u64) {
        let Some(alive) = self.alive(life) else { return };
        if alive.acknowledger != carrier || std::mem::take(&mut alive.mislays_proof) {
            return;
        }
        let Some(id) = alive.conn else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.epoch != epoch || *conn.over.of(End::Client) {
            return;
        }
        conn.proofs.push(proof);
        self.send_next_proof(id);
        self.drain_client(id);
    }

    fn send_next_proof(&mut self, id: ConnId) {
        let message_id = self.message_id();
        let now = self.now;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(proof) = conn.proofs.send_next() else { return };
        let sent = conn.client.ack(message_id, &proof, now);
        conn.acks.insert(message_id);
        let unanswered = conn.acks.len();
        self.tally.acks += 1;
        self.check(Check::OneAckInFlight, unanswered == 1, || format!("{unanswered} unanswered"));
        self.check(Check::ControlRequestsFit, sent.is_ok(), || format!("{sent:?}"));
    }

    pub(super) fn client_hears(&mut self, id: ConnId, text: &str) {
        let frame = decode_server(text);
        self.check(Check::FramesAreValid, frame.is_ok(), || format!("{frame:?}"));
        if let (Ok(frame), Some(conn)) = (frame, self.conns.get_mut(&id)) {
            conn.client.receive(frame);
            self.drain_client(id);
        }
    }

    /// Carries out what a client's session asks for.
    pub(super) fn drain_client(&mut self, id: ConnId) {
        while let Some(conn) = self.conns.get_mut(&id)
            && let Some(effect) = conn.client.poll_effect()
        {
            let (life, epoch) = (conn.life, conn.epoch);
            match effect {
                Effect::Send(frame) => self.send(id, End::Client, Message::Text(encode_client(&frame))),
                Effect::Welcomed(welcome) => {
                    conn.welcomed = true;
                    let heartbeat_interval = Duration::from_millis(welcome.heartbeat_interval_ms.into());
                    let enabled = Enabled::from(welcome.enabled);
                    self.tell(life, Input::Connected { epoch, heartbeat_interval, enabled });
                }
                Effect::Deliver(delivery) => {
                    conn.client.delivery_read();
                    let lease = Duration::from_millis(delivery.lease_ms.into());
                    let delivery = Delivered { proof: delivery.proof, event: delivery.event, lease };
                    self.tell(life, Input::Delivered { epoch, delivery });
                }
                Effect::Answered(message_id, answer) => {
                    let is_ack = conn.acks.remove(&message_id);
                    let acked = is_ack.then(|| conn.proofs.answered(&answer.clone().into())).flatten();
                    self.tell(life, Input::answered(epoch, acked, answer));
                    if is_ack {
                        self.send_next_proof(id);
                    }
                }
                Effect::End(end) => {
                    let welcomed = conn.welcomed;
                    *conn.over.of_mut(End::Client) = true;
                    self.send(id, End::Client, Message::Close(end.close_code()));
                    let cause = end.into();
                    let input = if welcomed {
                        Input::Disconnected { epoch, cause }
                    } else {
                        Input::DialFailed { epoch, cause }
                    };
                    self.tell(life, input);
                    self.bury(id);
                }
            }
        }
        self.arm(id, End::Client);
    }

    pub(super) fn message_id(&mut self) -> MessageId {
        MessageId::from_u128(u128::from(self.rng.next_u64()) << 64 | u128::from(self.rng.next_u64()))
    }
}
