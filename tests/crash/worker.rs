//! The process that is killed: a consumer of the real platform whose handler is the inbox's. It knows nothing of what it
//! did before it was killed. On stdout it tells when a handler begins (`b`) and ends (`e`).

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use perilune::client::{Client, Credential};
use perilune::consumer::{Consumer, EventContext, EventHandler, HandlerResult};
use perilune::inbox::{BoxError, OpenTransaction};
use perilune::proto::ResultEvent;
use tokio::signal::unix::{SignalKind, signal};

use crate::business::{Books, Business};

/// Events that a process has in hand at once.
const CAPACITY: u8 = 4;

/// `work URL PREFIX PLATFORM SUBSCRIPTION PAUSE_MS`, the credential in the environment.
pub(crate) fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut next = || arguments.next().expect("work URL PREFIX PLATFORM SUBSCRIPTION PAUSE_MS");
    let (url, prefix, platform, subscription) = (next(), next(), next(), next());
    let pause = Duration::from_millis(next().parse().expect("a number"));
    let job = Job { url, prefix, platform, subscription, pause };
    let worked = actix_rt::System::new().block_on(async move {
        match job.url.split(':').next() {
            Some("sqlite") => job.work::<sqlx::Sqlite>().await,
            Some("postgres") => job.work::<sqlx::Postgres>().await,
            _ => job.work::<sqlx::MySql>().await,
        }
    });
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ended: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Job {
    url: String,
    prefix: String,
    platform: String,
    subscription: String,
    pause: Duration,
}

impl Job {
    /// Consumes until SIGTERM.
    async fn work<DB: Business>(self) -> Result<(), BoxError> {
        let mut stop = signal(SignalKind::terminate())?;
        let books = Books::<DB>::open(&self.url, &self.prefix).await?;
        let (inbox, pause) = (books.inbox.clone(), self.pause);
        let handler = inbox.handler(move |event, tx: OpenTransaction<DB>| books.clone().apply(event, tx, pause));
        let credential = Credential::new(std::env::var("PERILUNE_CREDENTIAL")?)?;
        let client = Client::builder(self.platform).credential(credential).build()?;
        let consumer = Consumer::builder(client, self.subscription.parse()?)
            .capacity(CAPACITY)
            .reconnect_min_delay(Duration::from_millis(20))
            .reconnect_max_delay(Duration::from_millis(200))
            .event_handler(Telling(handler))
            .on_settled(inbox.on_settled())
            .build()?;
        let run = consumer.start()?;
        tokio::select! {
            ended = run.ended() => ended?,
            _ = stop.recv() => {
                run.stop();
                run.ended().await?;
            }
        }
        Ok(())
    }
}

/// A handler that tells when it begins and ends.
struct Telling<H>(H);

impl<H: EventHandler> EventHandler for Telling<H> {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        tell(b"b\n");
        let handled = self.0.handle(event, context).await;
        tell(b"e\n");
        handled
    }
}

fn tell(line: &[u8]) {
    // A line at a time, so that a kill cuts none in half. Whoever started us is gone where nobody listens.
    if std::io::stdout().write_all(line).is_err() {
        std::process::exit(1);
    }
}
