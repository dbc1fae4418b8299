//! What can happen in the small system.

use std::sync::Arc;
use std::time::Duration;

use perilune_proto::backoff::Backoff;
use perilune_proto::consumer::{
    AckAnswer, Action, CauseCode, Delivered, Enabled, HandlerOutcome, Input, LinkState, Replay,
};
use perilune_proto::lease::{Delivery, Judgement, Moment, Phase};
use perilune_proto::rng::Rng;
use perilune_proto::scalar::Generation;

use crate::node::{Answer, Down, JUMP, LEASE, Link, Node, WAIT, event_id, event_of, proof, result_event};
use crate::system::{Seen, Small, System, met};

/// Every moment of the platform: leases lapse when a step says so.
const MOMENT: Moment = Moment(1);

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Start(usize),
    Crash(usize),
    Connect(usize),
    Cut(usize),
    /// Whatever a consumer waits for is over: leases, waits, the deadline.
    Jump(usize),
    Stop(usize),
    Lease {
        event: usize,
        consumer: usize,
    },
    Lapse(usize),
    /// The server reads the next message of a connection.
    ServerReads(usize),
    /// The consumer reads the next message of its connection.
    ConsumerReads(usize),
    /// The handler's transaction commits, and it says ok.
    SaysOk {
        consumer: usize,
        event: usize,
    },
    /// The handler fails, its transaction rolled back.
    Fails {
        consumer: usize,
        event: usize,
    },
    /// The transaction commits, but the handler does not learn it.
    Doubts {
        consumer: usize,
        event: usize,
    },
    /// The transaction commits, and the process dies before anybody learns it.
    AppliesAndDies {
        consumer: usize,
        event: usize,
    },
    Pause,
    Resume,
}

impl Small {
    pub(crate) fn possible(&self, state: &System, steps: &mut Vec<Step>) {
        for event in 0..self.events {
            if state.deliveries[event].is_some_and(|delivery| matches!(delivery.phase(), Phase::Leased { .. })) {
                steps.push(Step::Lapse(event));
            }
        }
        if self.pauses {
            steps.push(if state.paused { Step::Resume } else { Step::Pause });
        }
        for (consumer, node) in state.nodes.iter().enumerate() {
            match node {
                None => steps.push(Step::Start(consumer)),
                Some(node) => self.possible_of(state, consumer, node, steps),
            }
        }
    }

    fn possible_of(&self, state: &System, consumer: usize, node: &Node, steps: &mut Vec<Step>) {
        steps.push(Step::Crash(consumer));
        if self.jumps && node.machine.poll_timeout().is_some() {
            steps.push(Step::Jump(consumer));
        }
        if self.stops && !node.stopped {
            steps.push(Step::Stop(consumer));
        }
        if node.machine.link_state() == LinkState::Dialling {
            steps.push(Step::Connect(consumer));
        }
        if node.link.open {
            steps.push(Step::Cut(consumer));
            if !node.link.up.is_empty() {
                steps.push(Step::ServerReads(consumer));
            }
            if !node.link.down.is_empty() {
                steps.push(Step::ConsumerReads(consumer));
            }
            // What is on its way counts as the session's credit: one at a time is enough to interleave.
            let on_its_way = node.link.down.iter().any(|message| matches!(message, Down::Delivery { .. }));
            for event in 0..self.events {
                if !state.paused && !on_its_way && self.leasable(state, event) {
                    steps.push(Step::Lease { event, consumer });
                }
            }
        }
        for &event in node.runs.keys() {
            steps.extend([Step::SaysOk { consumer, event }, Step::Fails { consumer, event }]);
            steps.extend([Step::Doubts { consumer, event }, Step::AppliesAndDies { consumer, event }]);
        }
    }

    /// Whether a delivery may be leased: taken off the log in order, within the window.
    fn leasable(&self, state: &System, event: usize) -> bool {
        match state.deliveries[event] {
            Some(delivery) => matches!(delivery.phase(), Phase::Ready { .. }),
            None => {
                let next = state.deliveries.iter().take_while(|delivery| delivery.is_some()).count() == event;
                next && state.open() < self.window as usize
            }
        }
    }

    pub(crate) fn take(&self, state: &mut System, step: Step) {
        match step {
            Step::Start(consumer) => {
                state.nodes[consumer] = Some(Arc::new(Node::start()));
                self.with(state, consumer, |_| ());
            }
            Step::Crash(consumer) => state.nodes[consumer] = None,
            Step::Connect(consumer) => {
                let (heartbeat_interval, enabled) = (Duration::from_secs(15), Enabled::from(!state.paused));
                self.with(state, consumer, |node| {
                    node.link = Link { open: true, ..Link::default() };
                    node.hear(Input::Connected { epoch: node.epoch, heartbeat_interval, enabled });
                });
            }
            Step::Cut(consumer) => self.with(state, consumer, |node| {
                node.link = Link::default();
                node.hear(Input::Disconnected { epoch: node.epoch, cause: CauseCode::Network.into() });
                // A wait for the next dial differs in nothing from the dial itself.
                node.now += WAIT;
                node.hear(Input::TimedOut);
            }),
            Step::Jump(consumer) => self.with(state, consumer, |node| {
                node.now += JUMP;
                node.hear(Input::TimedOut);
            }),
            Step::Stop(consumer) => self.with(state, consumer, |node| {
                node.stopped = true;
                node.hear(Input::Stop);
            }),
            Step::Lease { event, consumer } => self.lease(state, event, consumer),
            Step::Lapse(event) => {
                let backoff = Backoff::new(Duration::ZERO, Duration::ZERO);
                if let Some(delivery) = &mut state.deliveries[event] {
                    delivery.lapse(MOMENT, &backoff, &mut Rng::new(1));
                }
            }
            Step::ServerReads(consumer) => self.judge(state, consumer),
            Step::ConsumerReads(consumer) => self.read(state, consumer),
            Step::SaysOk { consumer, event } => {
                state.applied[event] = true;
                self.run_ends(state, consumer, event, HandlerOutcome::Ok);
            }
            Step::Fails { consumer, event } => self.run_ends(state, consumer, event, HandlerOutcome::Error),
            Step::Doubts { consumer, event } => {
                state.applied[event] = true;
                self.run_ends(state, consumer, event, HandlerOutcome::Error);
            }
            Step::AppliesAndDies { consumer, event } => {
                state.applied[event] = true;
                state.nodes[consumer] = None;
            }
            Step::Pause => state.paused = true,
            Step::Resume => state.paused = false,
        }
    }

    /// Changes a process, and carries out what its machine wants.
    fn with(&self, state: &mut System, consumer: usize, change: impl FnOnce(&mut Node)) {
        let Some(shared) = &mut state.nodes[consumer] else { return };
        let node = Arc::make_mut(shared);
        change(node);
        while let Some(action) = node.machine.poll_action() {
            match action {
                Action::Dial { epoch, .. } => node.epoch = epoch,
                Action::Close { epoch } => {
                    node.link = Link::default();
                    node.hear(Input::Disconnected { epoch, cause: CauseCode::Closed.into() });
                }
                Action::Ack { proof, .. } => node.link.up.push_back((event_of(&proof.event_id), proof.generation.0)),
                Action::Start { run, event, .. } => {
                    let event = event_of(&event.event_id);
                    if node.owed.contains_key(&event) || node.runs.contains_key(&event) {
                        state.broken = Some("a second handler for one event");
                    }
                    node.runs.insert(event, run);
                }
                Action::Finish(report) => {
                    let mut reported: Vec<usize> = report.committed.iter().map(event_of).collect();
                    reported.sort_unstable();
                    let running = node.runs.keys().copied().eq(report.running.iter().map(event_of));
                    if !node.owed.keys().copied().eq(reported) || !running {
                        state.broken = Some("the final report is not true");
                    }
                    let Seen { clean_stop, unclean_stop, .. } = &self.seen;
                    met(if report.is_clean() { clean_stop } else { unclean_stop });
                    // What the process held in memory is gone with it.
                    state.nodes[consumer] = None;
                    return;
                }
                _ => {}
            }
        }
        node.sum_up();
    }

    fn lease(&self, state: &mut System, event: usize, consumer: usize) {
        let budget = self.budget;
        let delivery = state.deliveries[event].get_or_insert_with(|| Delivery::taken(budget, MOMENT));
        let Some(generation) = delivery.lease(MOMENT, Duration::ZERO) else { return };
        state.lessees[event] = Some(consumer);
        self.with(state, consumer, |node| node.link.down.push_back(Down::Delivery { event, generation: generation.0 }));
    }

    /// The store judges the next proof, and its answer goes out.
    fn judge(&self, state: &mut System, consumer: usize) {
        let Some((event, generation)) = state.nodes[consumer].as_ref().and_then(|node| node.link.up.front().copied())
        else {
            return;
        };
        let secret = state.secret(event, Generation(generation), consumer);
        let Some(delivery) = &mut state.deliveries[event] else { return };
        let answer = match delivery.confirm(Generation(generation), secret, MOMENT) {
            Judgement::Confirms => Answer::Confirmed,
            Judgement::Replays => {
                met(&self.seen.replayed);
                Answer::Replayed
            }
            Judgement::Lost => Answer::Lost,
            Judgement::Invalid => {
                state.broken = Some("an honest proof was taken for forged");
                Answer::Lost
            }
        };
        self.with(state, consumer, |node| {
            node.link.up.pop_front();
            node.link.down.push_back(Down::Answer { event, generation, answer });
        });
    }

    fn read(&self, state: &mut System, consumer: usize) {
        let Some(message) = state.nodes[consumer].as_ref().and_then(|node| node.link.down.front().copied()) else {
            return;
        };
        self.with(state, consumer, |node| {
            node.link.down.pop_front();
            let epoch = node.epoch;
            let input = match message {
                Down::Delivery { event, generation } => Input::Delivered {
                    epoch,
                    delivery: Delivered { proof: proof(event, generation), event: result_event(event), lease: LEASE },
                },
                Down::Answer { event, generation, answer } => {
                    node.owed.remove(&event);
                    let answer = match answer {
                        Answer::Confirmed => AckAnswer::Confirmed { replay: Replay::First },
                        Answer::Replayed => AckAnswer::Confirmed { replay: Replay::Replayed },
                        Answer::Lost => AckAnswer::Lost,
                    };
                    let (event_id, generation) = (event_id(event), Generation(generation));
                    Input::AckAnswered { epoch, event_id, generation, answer }
                }
            };
            node.hear(input);
        });
        if let Down::Answer { event, answer: Answer::Lost, .. } = message {
            let runs = state.nodes[consumer].as_ref().is_some_and(|node| node.runs.contains_key(&event));
            met(if runs { &self.seen.successor_ran } else { &self.seen.lost });
        }
    }

    fn run_ends(&self, state: &mut System, consumer: usize, event: usize, outcome: HandlerOutcome) {
        self.with(state, consumer, |node| {
            let Some(run) = node.runs.remove(&event) else { return };
            if outcome == HandlerOutcome::Ok {
                let held = node.machine.outline().held;
                let this = held.iter().find(|held| event_of(&held.event_id) == event);
                node.owed.insert(event, this.map_or(0, |held| held.generation.0));
            }
            node.hear(Input::HandlerEnded { run, outcome });
        });
    }
}
