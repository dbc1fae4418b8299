//! Every number of the contract, with its unit. Relations between them are asserted at compile time.
//!
//! Source: events-v1.md, consumer.md and http-api.md. Nothing elsewhere repeats one of these figures.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The WebSocket subprotocol's name.
pub const SUBPROTOCOL: &str = "orbit.events.v1";
/// Path of the WebSocket below the platform's base URL.
pub const EVENTS_PATH: &str = "/v1/events";

/// Longest message in bytes, after continuation frames are joined.
pub const FRAME_BYTES_MAX: usize = 524_288;
/// Deepest nesting of a frame; the outer object is level 1.
pub const FRAME_DEPTH_MAX: usize = 64;
/// Deepest nesting of a reported payload or result: it sits on level 4 of its delivery.
pub const OPAQUE_DEPTH_MAX: usize = FRAME_DEPTH_MAX - 3;
/// Most bytes of `payload`, `result` and `error` together in one report.
pub const REPORT_OPAQUE_BYTES_MAX: usize = 520_000;
/// Most reports in one batch.
pub const BATCH_LINES_MAX: usize = 1_000;

/// How many unconfirmed, unlapsed deliveries a session may have outstanding.
pub const CAPACITY: RangeInclusive<u8> = 1..=32;
/// Control requests (`ack`, `ping`) that may be unanswered on one session.
pub const CONTROL_REQUESTS_MAX: usize = 32;
/// A control request's whole time, the write queue included.
pub const CONTROL_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The handshake's whole time: TCP, TLS, upgrade, `register` to `welcome`.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(8);
/// Most bytes kept of a refusal's problem body.
pub const PROBLEM_BYTES_MAX: usize = 65_536;

/// `heartbeat_interval_ms` that a `welcome` may state, in milliseconds.
pub const HEARTBEAT_MS: RangeInclusive<u32> = 1_000..=15_000;
/// The contract's heartbeat interval, in milliseconds.
pub const HEARTBEAT_MS_DEFAULT: u32 = 15_000;
/// Heartbeat intervals without a control request after which a server closes a session.
pub const HEARTBEATS_MISSED_MAX: u32 = 3;
/// `lease_ms` that a `welcome` may state, in milliseconds.
pub const LEASE_MS: RangeInclusive<u32> = 1_000..=30_000;
/// The contract's lease, in milliseconds.
pub const LEASE_MS_DEFAULT: u32 = 30_000;
/// `lease_ms` that a `delivery` may state: what is left of its lease, in milliseconds.
pub const LEASE_LEFT_MS: RangeInclusive<u32> = 1..=30_000;
/// `retry_after_ms` that an `error` may state, in milliseconds.
pub const RETRY_AFTER_MS: RangeInclusive<u32> = 0..=3_600_000;
/// The longest `retry_after` that a client honours.
pub const RETRY_AFTER_HONOURED_MAX: Duration = Duration::from_secs(30);

/// Characters of a queue's or an operation's name.
pub const NAME_CHARS: RangeInclusive<usize> = 1..=128;
/// Characters of a subscription's name.
pub const SUBSCRIPTION_NAME_CHARS: RangeInclusive<usize> = 1..=128;

/// A subscription's window: its open deliveries (ready, leased, EXPIRED).
pub const WINDOW: RangeInclusive<u32> = 1..=4_096;
/// A subscription's window where none is given.
pub const WINDOW_DEFAULT: u32 = 256;
/// Generations a delivery may have before it is EXPIRED, where no budget is given.
pub const BUDGET_DEFAULT: u32 = 10;
/// Generations that an operator may add at once.
pub const BUDGET_ADD: RangeInclusive<u32> = 1..=1_000;
/// First delay before a lapsed delivery is leased again.
pub const REDELIVERY_BACKOFF_MIN: Duration = Duration::from_secs(1);
/// Longest delay before a lapsed delivery is leased again.
pub const REDELIVERY_BACKOFF_MAX: Duration = Duration::from_secs(300);
/// How long a confirmed proof goes on to be answered with `replayed: true`, at least.
pub const REPLAY_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an `Idempotency-Key` is kept.
pub const IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// `shutdown_timeout` of a consumer.
pub const SHUTDOWN_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(300);
/// `shutdown_timeout` where none is given.
pub const SHUTDOWN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// `reconnect_min_delay` at the least.
pub const RECONNECT_MIN_DELAY_MIN: Duration = Duration::from_millis(10);
/// `reconnect_min_delay` where none is given.
pub const RECONNECT_MIN_DELAY_DEFAULT: Duration = Duration::from_millis(200);
/// `reconnect_max_delay` where none is given.
pub const RECONNECT_MAX_DELAY_DEFAULT: Duration = Duration::from_secs(5);
/// `reconnect_max_delay` at the most.
pub const RECONNECT_MAX_DELAY_MAX: Duration = Duration::from_secs(30);
/// A consumer's capacity where none is given.
pub const CAPACITY_DEFAULT: u8 = 4;
/// A connected consumer with nothing to confirm for this long counts as healthy again.
pub const IDLE_HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// Crashed children that a subscription replaces within [`CHILD_LOSSES_WINDOW`]; one more ends its run.
pub const CHILD_LOSSES_MAX: usize = 5;
/// The span over which crashed children are counted.
pub const CHILD_LOSSES_WINDOW: Duration = Duration::from_secs(60);
/// How long a subscription bears that a child neither answers an `ack` nor tells that a closed connection has
/// ended. The connection itself gives up far earlier, so only a child that has lost a message is silent for so long.
pub const CHILD_SILENCE_MAX: Duration = Duration::from_secs(15);
/// How much later than for the platform a lease may end for a consumer: a delivery's way, and what a busy machine adds.
pub const LEASE_TRANSIT_MAX: Duration = Duration::from_millis(250);
/// Notices held for a reader before further ones are dropped and counted.
pub const NOTICES_MAX: usize = 128;

const _: () = {
    assert!(REPORT_OPAQUE_BYTES_MAX < FRAME_BYTES_MAX);
    assert!(OPAQUE_DEPTH_MAX == 61);
    assert!(*CAPACITY.end() as usize <= CONTROL_REQUESTS_MAX);
    assert!(*LEASE_LEFT_MS.end() == *LEASE_MS.end());
    assert!(HEARTBEAT_MS_DEFAULT == *HEARTBEAT_MS.end());
    assert!(LEASE_MS_DEFAULT == *LEASE_MS.end());
    assert!(CONTROL_REQUEST_TIMEOUT.as_millis() < CHILD_SILENCE_MAX.as_millis());
    assert!(HANDSHAKE_TIMEOUT.as_millis() < CONTROL_REQUEST_TIMEOUT.as_millis());
};
