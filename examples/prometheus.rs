//! An application with a readiness route and Prometheus figures of its consumer: `/readyz`, `/metrics`.
//!
//! `PERILUNE_CREDENTIAL=… SUBSCRIPTION=… cargo run --example prometheus`

use std::env::var;
use std::num::NonZeroUsize;

use actix_web::{App, HttpResponse, HttpServer, web};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use perilune::client::{Client, Credential};
use perilune::consumer::{Consumer, Supervisor, SupervisorHandle};

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before the consumer starts: it asks for its figures once.
    let figures = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &[0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 30.0])?
        .install_recorder()?;

    let url = var("PERILUNE_URL").unwrap_or_else(|_| "http://127.0.0.1:7878".to_owned());
    let client = Client::builder(url).credential(Credential::new(var("PERILUNE_CREDENTIAL")?)?).build()?;
    let consumer = Consumer::builder(client, var("SUBSCRIPTION")?.parse()?)
        .handler(|event, _context| async move {
            println!("{} is {}", event.task_id(), event.snapshot.status);
            Ok(())
        })
        .build()?;
    let supervisor = Supervisor::start(NonZeroUsize::MIN)?;
    let run = supervisor.add(&consumer)?;

    let listen = var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let health = supervisor.clone();
    let server = HttpServer::new(move || {
        App::new()
            .app_data(web::Data::new(figures.clone()))
            .app_data(web::Data::new(health.clone()))
            .route("/metrics", web::get().to(render))
            .route("/readyz", web::get().to(ready))
    })
    .workers(1)
    .disable_signals()
    .bind(&listen)?;
    println!("http://{}/metrics", server.addrs()[0]);
    let server = server.run();
    let serving = server.handle();
    actix_web::rt::spawn(server);

    tokio::select! {
        // By itself it ends by a fault alone. Whoever watches over this program starts it again.
        ended = run.ended() => ended?,
        interrupted = actix_web::rt::signal::ctrl_c() => {
            interrupted?;
            run.stop();
            run.ended().await?;
        }
    }
    serving.stop(true).await;
    Ok(())
}

async fn render(figures: web::Data<PrometheusHandle>) -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(figures.render())
}

/// Ready while every consumer can do its work. A lost connection is no reason to be restarted: keep it off the liveness route.
async fn ready(supervisor: web::Data<SupervisorHandle>) -> Result<HttpResponse, actix_web::Error> {
    let runs = supervisor.list().await.map_err(actix_web::error::ErrorServiceUnavailable)?;
    let lines = runs.iter().map(|run| format!("{} {}\n", run.subscription_id, run.health.state.as_str()));
    let text = lines.collect::<String>();
    Ok(match runs.iter().all(|run| run.health.is_ready()) {
        true => HttpResponse::Ok().body(text),
        false => HttpResponse::ServiceUnavailable().body(text),
    })
}
