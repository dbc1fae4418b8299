//! Everything that runs: a platform, a worker, and the application with its consumer, its relay and its page.

mod books;
mod kept;
pub(crate) mod operation;
mod orders;
mod page;
mod people;
mod platform;
mod routes;
mod worker;

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer, web};
use perilune::consumer::{Consumer, ConsumerHandle};
use perilune::inbox::{Inbox, PruningPolicy};
use perilune::outbox::{Outbox, Relay, RelayHandle, RelayOptions};
use perilune::outcome::protect::{Key, KeyId, KeyRing};
use perilune::outcome::status::StatusResource;
use perilune::outcome::{
    AuthoriseBy, Caller, Decision, NoOtherTopics, Operations, OutcomeQuery, PlatformSender, Subject,
};
use perilune::server::store::Scope;
use perilune::sql::pool::{SqlitePools, open_sqlite};
use perilune::sql::{DatabaseUrl, PoolSettings};
use sqlx::Sqlite;

use operation::GenerateReport;
use orders::Orders;
use platform::Platform;

/// How long a request that is under way may take when the service stops; one that is held for a change takes longest.
const STOP_SECONDS: u64 = 2;

/// Where everything is, and how fast the worker is.
pub(crate) struct Options {
    /// Holds the databases and the secrets; made where there is none.
    pub(crate) folder: PathBuf,
    /// Where the page is.
    pub(crate) listen: SocketAddr,
    /// Where the platform is.
    pub(crate) platform_listen: SocketAddr,
    /// How long each step of a report takes.
    pub(crate) pace: Duration,
}

/// The running example.
pub(crate) struct Service {
    platform: Platform,
    worker: ConsumerHandle,
    consumer: ConsumerHandle,
    relay: Arc<RelayHandle>,
    server: ServerHandle,
    addr: SocketAddr,
    pools: SqlitePools,
}

impl Service {
    pub(crate) async fn start(options: Options) -> Result<Self, Box<dyn Error>> {
        std::fs::create_dir_all(&options.folder)?;
        let platform = Platform::start(&options.folder, options.platform_listen).await?;

        // The worker would be another program on another machine: it knows the platform alone.
        let credential = platform.credential("worker", &[Scope::Report, Scope::Consume]).await?;
        let accepted = platform.subscription(&credential, &["accepted"]).await?;
        let worker = worker::start(platform.client(&credential)?, accepted, options.pace)?;

        // The application: business tables, inbox, outbox, operations and outcomes in one database.
        let credential = platform.credential("application", &[Scope::Report, Scope::Consume]).await?;
        let everything = platform.subscription(&credential, &[]).await?;
        let client = platform.client(&credential)?;
        let url = format!("sqlite:{}", options.folder.join("reports.db").display());
        #[allow(irrefutable_let_patterns, reason = "with one engine compiled in there is no other")]
        let DatabaseUrl::Sqlite(url) = url.parse()? else { return Err("not an SQLite database".into()) };
        let pools = open_sqlite(&url, &PoolSettings::default()).await?;
        let inbox = Inbox::<Sqlite>::new(pools.writer.clone(), "reports")?;
        inbox.migrate().await?;
        inbox.keep_pruned(PruningPolicy::default());
        let outbox = Outbox::new();
        outbox.migrate(&pools.writer).await?;
        let key = kept::bytes(&options.folder.join("outcomes.key"))?;
        let operations = Operations::builder(pools.writer.clone(), KeyRing::new(Key::new(KeyId(1), key)))
            .readers(pools.readers.clone())
            .operation::<GenerateReport>()
            .build();
        operations.migrate().await?;
        let orders = Orders::new(pools.clone(), operations.clone(), outbox.clone());
        orders.create_table().await?;

        // What was committed is dispatched to the platform.
        let sender = PlatformSender::new(client.clone(), &operations, NoOtherTopics);
        let relay = Arc::new(Relay::start(&outbox, pools.writer.clone(), sender, RelayOptions::default())?);

        // How a report went comes as events: status, outcome and the order's end are one transaction each.
        let ending = orders.clone();
        let handler = operations.handler_around(&inbox, move |event, mut tx| {
            let orders = ending.clone();
            async move {
                orders.note_end(&mut tx, &event).await?;
                Ok::<_, sqlx::Error>(tx)
            }
        });
        let consumer = Consumer::builder(client, everything)
            .capacity(4)
            .event_handler(handler)
            .on_settled(inbox.on_settled())
            .build()?
            .start()?;

        // Nobody may know of another's report, of the same team or not: to them there is none.
        let query = OutcomeQuery::new(&operations).with_authoriser(AuthoriseBy::new(may_know));
        let status = StatusResource::new(query.clone(), people::caller);
        let announce = Arc::clone(&relay);
        let server = HttpServer::new(move || {
            let state = routes::State { orders: orders.clone(), query: query.clone(), relay: Arc::clone(&announce) };
            App::new()
                .wrap(page::security_headers())
                .app_data(web::Data::new(state))
                .service(web::scope("/api").service(status.scope()).configure(routes::api))
                .configure(page::files)
        })
        .workers(2)
        .disable_signals()
        .shutdown_timeout(STOP_SECONDS)
        .bind(options.listen)?;
        let addr = *server.addrs().first().ok_or("the page has no address")?;
        let running = server.run();
        let server = running.handle();
        actix_web::rt::spawn(running);
        Ok(Self { platform, worker, consumer, relay, server, addr, pools })
    }

    /// Where the page is.
    pub(crate) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where the platform is.
    pub(crate) fn platform_url(&self) -> String {
        self.platform.url()
    }

    /// Resolves with the part that has ended first. None does by itself but by a fault.
    pub(crate) async fn ended(&self) -> &'static str {
        tokio::select! {
            _why = self.worker.ended() => "the worker",
            _why = self.consumer.ended() => "the consumer",
            () = self.relay.ended() => "the relay",
        }
    }

    /// Takes no more orders, lets what runs end, acknowledges what is done, sends what is being sent.
    pub(crate) async fn stop(self) -> Result<(), Box<dyn Error>> {
        self.server.stop(true).await;
        self.relay.drain().await;
        self.worker.stop();
        self.worker.ended().await?;
        self.consumer.stop();
        self.consumer.ended().await?;
        self.pools.readers.close().await;
        self.pools.writer.close().await;
        self.platform.stop().await
    }
}

fn may_know(subject: Subject<'_>) -> Decision {
    match subject.current_actor {
        Some(actor) if subject.origin_actor == Some(actor) => Decision::Allow,
        _ => Decision::Deny,
    }
}

/// The caller of a person who is signed in.
impl From<&people::Person> for Caller {
    fn from(person: &people::Person) -> Self {
        Self { actor: Some(person.id.to_owned()), tenant: Some(person.team.to_owned()) }
    }
}
