//! A shop on PostgreSQL: business tables, inbox and outbox in one database. See README.md beside this file.

mod orders;

#[path = "../shop/bank.rs"]
mod bank;
#[path = "../shop/platform.rs"]
mod platform;

use std::env::var;
use std::error::Error;
use std::sync::Arc;

use actix_web::{App, HttpResponse, HttpServer, Responder, web};
use perilune::consumer::Consumer;
use perilune::inbox::InboxOptions;
use perilune::outbox::{HttpSender, Outbox, Relay, RelayHandle, RelayOptions};
use perilune::sql::{DatabaseUrl, Engine, PoolSettings};
use sqlx::{Pool, Postgres};

use orders::{NewOrder, Orders};

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // What retries, dies or is refused says so here.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let database = var("DATABASE_URL").unwrap_or_else(|_| "postgres://root@127.0.0.1/test".to_owned());
    let listen = var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let platform = platform::Platform::start("shop_postgres.platform.db").await?;

    // One pool for what lives on this thread: the inbox's transactions and the relay.
    let inbox = InboxOptions::new("shop").connect::<Postgres>(&database).await?;
    let outbox = Outbox::new();
    outbox.migrate(inbox.pool()).await?;
    let orders = Orders::new(outbox.clone());
    orders.create_tables(inbox.pool()).await?;

    let services = format!("http://{listen}");
    let sender = HttpSender::new(move |topic| match topic {
        "payment.wanted" => Some(format!("{services}/bank")),
        "order.paid" | "order.refused" => Some(format!("{services}/mail")),
        _ => None,
    })?;
    let relay = Arc::new(Relay::start(&outbox, inbox.pool().clone(), sender, RelayOptions::default())?);

    // How a payment went comes as an event: the order's new state, the stock and the mail are one transaction with it.
    let settled = orders.clone();
    let handler = inbox.handler(move |event, mut tx| {
        let orders = settled.clone();
        async move { orders.settle(&mut tx, &event).await }
    });
    let consumer = Consumer::builder(platform.client()?, platform.subscription)
        .capacity(16)
        .event_handler(handler)
        .on_settled(inbox.on_settled())
        .build()?;
    let run = consumer.start()?;

    println!("shop on http://{listen}");
    let reports = bank::Reports { url: platform.url.clone(), credential: platform.credential.clone() };
    let announce = Arc::clone(&relay);
    let server = HttpServer::new(move || {
        let database = database.clone();
        App::new()
            // One pool for each of the server's threads: a connection is driven by the thread that opened it.
            .data_factory(move || open(database.clone()))
            .app_data(web::Data::new(orders.clone()))
            .app_data(web::Data::new(reports.clone()))
            .app_data(web::Data::from(Arc::clone(&announce)))
            .route("/orders", web::post().to(place))
            .route("/orders/{id}", web::get().to(show))
            .route("/stock", web::get().to(stock))
            .route("/bank", web::post().to(bank::pay))
            .route("/mail", web::post().to(bank::mail))
    })
    .workers(2)
    .disable_signals()
    .bind(&listen)?
    .run();
    let serving = server.handle();
    actix_web::rt::spawn(server);

    tokio::select! {
        interrupted = actix_web::rt::signal::ctrl_c() => interrupted?,
        // Neither ends by itself but by a fault. Whoever watches over this program starts it again.
        ended = run.ended() => ended?,
        () = relay.ended() => return Err("the relay has ended".into()),
    }
    // What runs may end, what is done is acknowledged, what is being sent goes out; then nobody is served any more.
    run.stop();
    run.ended().await?;
    relay.drain().await;
    serving.stop(true).await;
    Ok(())
}

async fn open(database: String) -> Result<Pool<Postgres>, Box<dyn Error>> {
    let url: DatabaseUrl = database.parse()?;
    Ok(Postgres::open(&url, &PoolSettings { max_connections: 4, ..PoolSettings::default() }).await?)
}

type Answer = Result<HttpResponse, actix_web::Error>;

fn failed(error: impl std::fmt::Display) -> actix_web::Error {
    actix_web::error::ErrorInternalServerError(error.to_string())
}

async fn place(
    order: web::Json<NewOrder>,
    orders: web::Data<Orders>,
    pool: web::Data<Pool<Postgres>>,
    relay: web::Data<RelayHandle>,
) -> Answer {
    let (orders, pool) = (orders.as_ref().clone(), pool.as_ref().clone());
    // A request is dropped when its client goes away; a transaction must not be dropped half-way.
    let placed = actix_web::rt::spawn(async move { orders.place(&pool, &order).await });
    let id = placed.await.map_err(failed)?.map_err(failed)?;
    relay.wake();
    Ok(HttpResponse::Accepted().insert_header(("location", format!("/orders/{id}"))).json(id.to_string()))
}

async fn show(id: web::Path<String>, orders: web::Data<Orders>, pool: web::Data<Pool<Postgres>>) -> Answer {
    let state = orders.state(&pool, &id).await.map_err(failed)?;
    Ok(state.map_or_else(|| HttpResponse::NotFound().finish(), |state| HttpResponse::Ok().json(state)))
}

async fn stock(orders: web::Data<Orders>, pool: web::Data<Pool<Postgres>>) -> Result<impl Responder, actix_web::Error> {
    Ok(web::Json(orders.stock(&pool).await.map_err(failed)?))
}
