//! Sends the spans of a consumer's handlers to an OpenTelemetry collector, by OTLP over HTTP. See README.md beside this.

use std::env::var;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::trace::SdkTracerProvider;
use perilune::client::{Client, Credential};
use perilune::consumer::Consumer;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The exporter's own thread sends; it reads OTEL_EXPORTER_OTLP_ENDPOINT, and localhost:4318 is its default.
    let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpJson).build()?;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("perilune"));
    // What the exporter itself does is not to be told to the exporter.
    let filter = EnvFilter::new("off,perilune=info,perilune_actors=info");
    tracing_subscriber::registry().with(filter).with(spans).try_init()?;

    actix_rt::System::new().block_on(consume())?;
    // Sends what is still there.
    provider.shutdown()?;
    Ok(())
}

async fn consume() -> Result<(), Box<dyn std::error::Error>> {
    let url = var("PERILUNE_URL").unwrap_or_else(|_| "http://127.0.0.1:7878".to_owned());
    let client = Client::builder(url).credential(Credential::new(var("PERILUNE_CREDENTIAL")?)?).build()?;
    let consumer = Consumer::builder(client, var("SUBSCRIPTION")?.parse()?)
        // Around every call there is a span `perilune.handle`; what the handler does is traced within it.
        .handler(|event, _context| async move {
            println!("{} is {}", event.task_id(), event.snapshot.status);
            Ok(())
        })
        .build()?;
    let run = consumer.start()?;
    tokio::select! {
        // By itself it ends by a fault alone. Whoever watches over this program starts it again.
        ended = run.ended() => ended?,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            run.stop();
            run.ended().await?;
        }
    }
    Ok(())
}
