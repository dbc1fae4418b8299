//! Status reads a second beside the same single-row SELECT through actix-web and sqlx, over the same pool.

use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use futures_util::future::join_all;
use perilune::outcome::status::StatusResource;
use perilune::outcome::{AuthoriseBy, Caller, Decision, Operations, OutcomeQuery};
use sqlx::PgPool;

use super::{Size, median};

pub(super) async fn compare(pool: &PgPool, operations: &Operations<sqlx::Postgres>, size: &Size) {
    let query = OutcomeQuery::new(operations).with_authoriser(AuthoriseBy::new(|_| Decision::Allow));
    let resource = StatusResource::new(query, |_| Ok(Caller { actor: None, tenant: None }));
    let bare = pool.clone();
    let server = HttpServer::new(move || {
        App::new()
            .service(resource.scope())
            .app_data(web::Data::new(bare.clone()))
            .route("/bare/{id}", web::get().to(read_bare))
    });
    let server = server.workers(1).disable_signals().bind("127.0.0.1:0").expect("bound");
    let base = format!("http://{}", server.addrs()[0]);
    let server = server.run();
    let handle = server.handle();
    actix_rt::spawn(server);
    let mut ratios = Vec::new();
    // The first reads warm both sides up and are not counted.
    for round in 0..=size.rounds {
        let (floor, floor_p99) = load(&format!("{base}/bare"), size).await;
        let (ours, ours_p99) = load(&format!("{base}/operations"), size).await;
        if round > 0 {
            println!(
                "status: {ours:.0}/s, p99 {ours_p99:.1?}; bare SELECT: {floor:.0}/s, p99 {floor_p99:.1?}; ratio {:.2}",
                ours / floor
            );
            ratios.push(ours / floor);
        }
    }
    println!("status: median ratio {:.2} (at least 0.7 is the aim)", median(ratios));
    handle.stop(false).await;
}

async fn read_bare(pool: web::Data<PgPool>, id: web::Path<String>) -> HttpResponse {
    let row: Option<(String, i64)> =
        sqlx::query_as("SELECT state, attempt FROM bench_operations WHERE operation_id = $1 AND tenant IS NULL")
            .bind(&*id)
            .fetch_optional(&**pool)
            .await
            .expect("read");
    match row {
        Some((state, attempt)) => {
            HttpResponse::Ok().json(serde_json::json!({ "id": *id, "state": state, "attempt": attempt }))
        }
        None => HttpResponse::NotFound().finish(),
    }
}

/// Reads running operations from several clients at once: reads a second, and the 99th percentile.
async fn load(base: &str, size: &Size) -> (f64, Duration) {
    let client = awc::Client::default();
    let begun = Instant::now();
    let pairs = (size.operations.unsigned_abs() / 2).max(1);
    let readers = (0..size.clients).map(|reader| {
        let client = client.clone();
        async move {
            let (mut times, mut state) = (Vec::new(), reader.wrapping_mul(0x9e37_79b9).wrapping_add(1));
            while begun.elapsed() < size.round {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let n = ((state >> 33) % pairs + 1) * 2;
                let asked = Instant::now();
                let mut response = client.get(format!("{base}/{n:032x}")).send().await.expect("answered");
                assert!(response.status().is_success(), "{}", response.status());
                response.body().await.expect("a body");
                times.push(asked.elapsed());
            }
            times
        }
    });
    let mut times: Vec<_> = join_all(readers).await.into_iter().flatten().collect();
    let elapsed = begun.elapsed();
    times.sort();
    (times.len() as f64 / elapsed.as_secs_f64(), times[times.len() * 99 / 100])
}
