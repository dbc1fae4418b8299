//! A page where a person orders a report, sees its status move and gets its typed outcome: server, worker and consumer in
//! one command. See README.md beside this file.

mod service;

use std::env::var;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use perilune::typescript::TreeState;
use service::{Options, Service, operation};

/// Where the generated client lies, from the project's folder.
const CLIENT: &str = "examples/reports/page/src/operations";

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        None => serve().await,
        Some("generate") => Ok(operation::catalogue().generate()?.write(Path::new(CLIENT))?),
        Some("check") => match operation::catalogue().generate()?.check(Path::new(CLIENT))? {
            TreeState::Fresh => Ok(()),
            TreeState::Stale => Err(format!("{CLIENT} is stale; make it anew with `generate`").into()),
        },
        Some(_) => Err("give nothing, `generate` or `check`".into()),
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    // What retries, dies or is refused says so here.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let setting = |name: &str, otherwise: &str| var(name).unwrap_or_else(|_| otherwise.to_owned());
    let options = Options {
        folder: setting("FOLDER", "reports.data").into(),
        listen: setting("LISTEN", "127.0.0.1:8080").parse()?,
        platform_listen: setting("PLATFORM_LISTEN", "127.0.0.1:0").parse()?,
        pace: Duration::from_millis(setting("PACE_MS", "2500").parse()?),
    };
    let service = Service::start(options).await?;
    println!("platform on {}", service.platform_url());
    println!("reports on http://{}", service.addr());
    let ended = tokio::select! {
        interrupted = actix_web::rt::signal::ctrl_c() => {
            interrupted?;
            None
        }
        part = service.ended() => Some(part),
    };
    service.stop().await?;
    // Whoever watches over this program starts it again.
    ended.map_or(Ok(()), |part| Err(format!("{part} has ended").into()))
}
