//! The state of the small system, and what must hold in each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perilune_proto::lease::{Delivery, Judgement, Phase, SecretMatch};
use perilune_proto::scalar::Generation;
use stateright::{Model, Property, Representative};

use crate::node::{Down, Node};
use crate::steps::Step;

/// How small the system is, and what has been seen in it.
#[derive(Debug, Default)]
pub(crate) struct Small {
    pub(crate) consumers: usize,
    pub(crate) events: usize,
    pub(crate) window: u32,
    pub(crate) budget: u32,
    /// Whether consumers are asked to stop.
    pub(crate) stops: bool,
    /// Whether the subscription is paused and resumed.
    pub(crate) pauses: bool,
    /// Whether consumers' clocks jump over leases and deadlines.
    pub(crate) jumps: bool,
    pub(crate) seen: Seen,
}

/// How often what must be reachable was met, or the model proves nothing.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) all_confirmed: AtomicU64,
    pub(crate) replayed: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) successor_ran: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) clean_stop: AtomicU64,
    pub(crate) unclean_stop: AtomicU64,
}

pub(crate) fn met(times: &AtomicU64) {
    times.fetch_add(1, Ordering::Relaxed);
}

/// One state.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct System {
    pub(crate) nodes: Vec<Option<Arc<Node>>>,
    pub(crate) deliveries: Vec<Option<Delivery>>,
    /// Who got the latest generation of each event, and with it its secret.
    pub(crate) lessees: Vec<Option<usize>>,
    /// Whether each event's business effect has happened: the inbox lets it happen once.
    pub(crate) applied: Vec<bool>,
    pub(crate) paused: bool,
    /// What a step broke that the state alone would not show.
    pub(crate) broken: Option<&'static str>,
}

impl System {
    pub(crate) fn open(&self) -> usize {
        self.deliveries.iter().flatten().filter(|delivery| delivery.is_open()).count()
    }

    fn confirmed(&self) -> usize {
        self.deliveries.iter().flatten().filter(|delivery| !delivery.is_open()).count()
    }

    /// Whether a proof of this generation, from this consumer, has the current secret.
    pub(crate) fn secret(&self, event: usize, generation: Generation, consumer: usize) -> SecretMatch {
        let current = self.deliveries[event].is_some_and(|delivery| delivery.generation() == generation);
        if current && self.lessees[event] == Some(consumer) { SecretMatch::Same } else { SecretMatch::Different }
    }

    /// Which of all proofs that may exist would confirm an event now: generation and consumer.
    fn live_proofs(&self, event: usize) -> Vec<(u64, usize)> {
        let Some(delivery) = self.deliveries[event] else { return Vec::new() };
        let all = (0..=4).flat_map(|generation| (0..self.nodes.len()).map(move |consumer| (generation, consumer)));
        all.filter(|&(generation, consumer)| {
            let generation = Generation(generation);
            delivery.judge(generation, self.secret(event, generation, consumer)) == Judgement::Confirms
        })
        .collect()
    }

    fn processes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flatten().map(|node| &**node)
    }
}

/// Two consumers that change places make no other state.
impl Representative for System {
    fn representative(&self) -> Self {
        let mut same = self.clone();
        let print = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node.print());
        if let [first, second] = &self.nodes[..]
            && (print(first), self.lessees[0] == Some(0)) > (print(second), self.lessees[0] == Some(1))
        {
            same.nodes.swap(0, 1);
            same.lessees.iter_mut().for_each(|lessee| *lessee = lessee.map(|consumer| 1 - consumer));
        }
        same
    }
}

impl Model for Small {
    type State = System;
    type Action = Step;

    fn init_states(&self) -> Vec<System> {
        vec![System {
            nodes: vec![None; self.consumers],
            deliveries: vec![None; self.events],
            lessees: vec![None; self.events],
            applied: vec![false; self.events],
            paused: false,
            broken: None,
        }]
    }

    fn actions(&self, state: &System, actions: &mut Vec<Step>) {
        if state.confirmed() == self.events {
            met(&self.seen.all_confirmed);
        }
        if state.deliveries.iter().flatten().any(|delivery| delivery.phase() == Phase::Expired) {
            met(&self.seen.expired);
        }
        self.possible(state, actions);
    }

    fn next_state(&self, state: &System, step: Step) -> Option<System> {
        let mut next = state.clone();
        self.take(&mut next, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one live generation", |_, s: &System| {
                (0..s.deliveries.len()).all(|event| s.live_proofs(event).len() <= 1)
            }),
            Property::always("no ack of another's delivery", |_, s: &System| {
                let own = |event: usize| s.live_proofs(event).iter().all(|(_, by)| s.lessees[event] == Some(*by));
                (0..s.deliveries.len()).all(own)
            }),
            Property::always("what is confirmed was applied", |_, s: &System| {
                let confirmed = |event: usize| s.deliveries[event].is_some_and(|delivery| !delivery.is_open());
                (0..s.applied.len()).all(|event| !confirmed(event) || s.applied[event])
            }),
            Property::always("no committed result is lost", |_, s: &System| {
                s.processes().all(|node| node.owed.keys().copied().eq(node.committed()))
            }),
            Property::always("the window is conserved", |small: &Self, s: &System| {
                let taken = s.deliveries.iter().flatten().count();
                s.open() <= small.window as usize && s.open() + s.confirmed() == taken
            }),
            Property::always("at most one ack in flight", |_, s: &System| {
                s.processes().all(|node| {
                    let answers = node.link.down.iter().filter(|m| matches!(m, Down::Answer { .. })).count();
                    node.link.up.len() + answers <= 1
                })
            }),
            Property::always("at most the capacity is held", |_, s: &System| {
                s.processes().all(|node| node.machine.outline().held.len() <= 1)
            }),
            Property::always("no step broke a rule", |_, s: &System| s.broken.is_none()),
        ]
    }
}
