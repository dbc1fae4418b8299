//! What strictness costs: decoding a `delivery` with every check of the contract, against
//! `serde_json` deserialising the same text into borrowed structs with `RawValue` and none of them.
//!
//! `cargo bench -p perilune-proto --bench decode`

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use perilune_proto::wire::decode_server;
use serde::Deserialize;
use serde_json::value::RawValue;

// The peer's fields are read by nobody: what counts is that they are deserialised.
#[derive(Deserialize)]
#[expect(dead_code)]
struct Frame<'a> {
    r#type: &'a str,
    session_id: &'a str,
    #[serde(borrow)]
    delivery: Leased<'a>,
    #[serde(borrow)]
    event: Event<'a>,
}

#[derive(Deserialize)]
#[expect(dead_code)]
struct Leased<'a> {
    delivery_id: &'a str,
    subscription_id: &'a str,
    event_id: &'a str,
    generation: &'a str,
    secret: &'a str,
    lease_ms: u32,
}

#[derive(Deserialize)]
#[expect(dead_code)]
struct Event<'a> {
    event_id: &'a str,
    sequence: &'a str,
    r#type: &'a str,
    queue: &'a str,
    task_id: &'a str,
    task_version: &'a str,
    occurred_at: &'a str,
    #[serde(borrow)]
    snapshot: Snapshot<'a>,
}

#[derive(Deserialize)]
#[expect(dead_code)]
struct Snapshot<'a> {
    task_id: &'a str,
    queue: &'a str,
    operation: &'a str,
    status: &'a str,
    version: &'a str,
    created_at: &'a str,
    updated_at: &'a str,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(borrow)]
    result: &'a RawValue,
    #[serde(borrow)]
    error: Option<TaskError<'a>>,
}

#[derive(Deserialize)]
#[expect(dead_code)]
struct TaskError<'a> {
    code: &'a str,
    message: &'a str,
}

/// A delivery of exactly `bytes` bytes, whose payload is records with nested objects, numbers and escapes.
fn delivery(bytes: usize) -> String {
    let mut records = String::new();
    let bare = delivery_with("", "").len();
    for n in 0.. {
        let record = format!(
            r#"{}{{"id":{n},"customer":"customer {n}","amount":{}.50,"paid":true,"note":"line one\nline \u00e9","address":{{"street":"A long road {n}","town":null}},"tags":["new","eu"]}}"#,
            if n > 0 { "," } else { "" },
            n * 17
        );
        if bare + records.len() + record.len() > bytes {
            break;
        }
        records.push_str(&record);
    }
    delivery_with(&records, &"x".repeat(bytes - bare - records.len()))
}

fn delivery_with(records: &str, rest: &str) -> String {
    let id = |n: u8| format!("{n:032x}");
    let payload = format!(r#"{{"records":[{records}],"rest":"{rest}"}}"#);
    format!(
        r#"{{"type":"delivery","session_id":"{}","delivery":{{"delivery_id":"{}","subscription_id":"{}","event_id":"{}","generation":"1","secret":"{}","lease_ms":30000}},"event":{{"event_id":"{}","sequence":"123456","type":"task.succeeded","queue":"reports","task_id":"{}","task_version":"3","occurred_at":"2026-08-01T10:00:00.123456Z","snapshot":{{"task_id":"{}","queue":"reports","operation":"GenerateReport","status":"succeeded","version":"3","created_at":"2026-08-01T09:59:00.000001Z","updated_at":"2026-08-01T10:00:00.123456Z","payload":{payload},"result":{{"pages":12}},"error":null}}}}}}"#,
        id(1),
        id(2),
        id(3),
        id(4),
        "A".repeat(43),
        id(4),
        id(5),
        id(5),
    )
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("delivery");
    for (name, bytes) in [("1 KiB", 1_024), ("512 KiB", 524_288)] {
        let text = delivery(bytes);
        println!("{name}: {} bytes", text.len());
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_with_input(BenchmarkId::new("serde_json, no checks", name), &text, |b, text| {
            b.iter(|| serde_json::from_str::<Frame<'_>>(black_box(text)).expect("valid"));
        });
        group.bench_with_input(BenchmarkId::new("strict", name), &text, |b, text| {
            b.iter(|| decode_server(black_box(text)).expect("valid"));
        });
    }
    group.finish();
}

/// The two in turns, the fastest of many rounds of each: a ratio that other work on the machine hardly moves.
fn ratio(_: &mut Criterion) {
    for (name, bytes, rounds, repeats) in [("1 KiB", 1_024, 1_000, 200), ("512 KiB", 524_288, 500, 1)] {
        let text = delivery(bytes);
        let (mut plain, mut strict) = (Duration::MAX, Duration::MAX);
        for _ in 0..rounds {
            plain = plain.min(time(repeats, || serde_json::from_str::<Frame<'_>>(black_box(&text)).expect("valid")));
            strict = strict.min(time(repeats, || decode_server(black_box(&text)).expect("valid")));
        }
        let ratio = strict.as_secs_f64() / plain.as_secs_f64();
        println!("{name} ({} bytes): serde_json {plain:?}, strict {strict:?}, ratio {ratio:.2}", text.len());
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn time<T>(repeats: u32, mut run: impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..repeats {
        black_box(run());
    }
    start.elapsed() / repeats
}

criterion_group!(benches, decode, ratio);
criterion_main!(benches);
