//! Whether the time of a 404 tells which one it is: an unknown operation, a denied one, another tenant's.
//!
//! Requests of the three kinds take turns on one connection. Each two kinds are compared by the two-sample
//! Kolmogorov-Smirnov test: D is the largest distance between their cumulative distributions (0: the same, 1: no
//! overlap), p how often chance alone makes one as large. Beside them stands the D of a kind against itself, which is what
//! this machine's noise makes.

use std::time::{Duration, Instant};

use actix_web::{App, HttpServer};
use perilune::outcome::status::StatusResource;
use perilune::outcome::{AuthoriseBy, Caller, Decision, Operations, OutcomeQuery};

use super::Size;

const KINDS: [&str; 3] = ["unknown", "denied", "another tenant's"];

pub(super) async fn compare(operations: &Operations<sqlx::Postgres>, size: &Size) {
    let authoriser = AuthoriseBy::new(|subject| match subject.current_actor {
        Some("ann") => Decision::Allow,
        _ => Decision::Deny,
    });
    let query = OutcomeQuery::new(operations).with_authoriser(authoriser);
    let resource = StatusResource::new(query, |request| {
        let actor = request.headers().get("x-actor").and_then(|actor| actor.to_str().ok()).map(str::to_owned);
        Ok(Caller { actor, tenant: None })
    });
    let server = HttpServer::new(move || App::new().service(resource.scope()));
    let server = server.workers(1).disable_signals().bind("127.0.0.1:0").expect("bound");
    let base = format!("http://{}/operations", server.addrs()[0]);
    let server = server.run();
    let handle = server.handle();
    actix_rt::spawn(server);

    let mut times: [Vec<Duration>; 3] = Default::default();
    let client = awc::Client::default();
    let pairs = (size.operations.unsigned_abs() / 2).max(1);
    let mut state = 1_u64;
    // The first tenth warms up and is not counted. Which kind goes first changes from turn to turn.
    let warm = size.samples / 10;
    for turn in 0..size.samples + warm {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let n = ((state >> 33) % pairs + 1) * 2;
        for at in 0..KINDS.len() {
            let kind = (at + turn) % KINDS.len();
            // An unknown id, one that is the caller's tenant's, and its odd neighbour, which is another's.
            let (id, actor) = [(n + (1 << 60), "ann"), (n, "eve"), (n - 1, "ann")][kind];
            let asked = Instant::now();
            let request = client.get(format!("{base}/{id:032x}")).insert_header(("x-actor", actor));
            let mut response = request.send().await.expect("answered");
            assert_eq!(response.status().as_u16(), 404, "{}", KINDS[kind]);
            response.body().await.expect("a body");
            if turn >= warm {
                times[kind].push(asked.elapsed());
            }
        }
    }
    for (kind, times) in KINDS.iter().zip(&mut times) {
        let (first, second): (Vec<_>, Vec<_>) = times.iter().enumerate().partition(|(at, _)| at % 2 == 0);
        let of = |half: Vec<(usize, &Duration)>| half.into_iter().map(|(_, time)| *time).collect::<Vec<_>>();
        let noise = largest_distance(&mut of(first), &mut of(second));
        times.sort();
        let quantile = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!("404 {kind}: median {:.1?}, p99 {:.1?}; against itself D {noise:.3}", quantile(50), quantile(99));
    }
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let distance = largest_distance(&mut times[one].clone(), &mut times[other].clone());
        let p = chance_of(distance, times[one].len(), times[other].len());
        println!(
            "404 {} and {}: two-sample Kolmogorov-Smirnov D {distance:.3}, p {p:.3}: {:.0} % of the distributions overlap",
            KINDS[one],
            KINDS[other],
            (1.0 - distance) * 100.0
        );
    }
    handle.stop(false).await;
}

/// The largest distance between two samples' cumulative distributions.
fn largest_distance(one: &mut [Duration], other: &mut [Duration]) -> f64 {
    one.sort();
    other.sort();
    let (mut i, mut j, mut largest) = (0, 0, 0.0_f64);
    while i < one.len() && j < other.len() {
        let at = one[i].min(other[j]);
        while i < one.len() && one[i] <= at {
            i += 1;
        }
        while j < other.len() && other[j] <= at {
            j += 1;
        }
        largest = largest.max((i as f64 / one.len() as f64 - j as f64 / other.len() as f64).abs());
    }
    largest
}

/// The chance of a distance at least as large between two samples of one distribution (Kolmogorov's limit).
fn chance_of(distance: f64, one: usize, other: usize) -> f64 {
    let (one, other) = (one as f64, other as f64);
    let size = (one * other / (one + other)).sqrt();
    let scaled = (size + 0.12 + 0.11 / size) * distance;
    if scaled < 0.2 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        let k = f64::from(k);
        sign * (-2.0 * k * k * scaled * scaled).exp()
    };
    (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0)
}
