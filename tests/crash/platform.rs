//! The platform: a real `perilune serve` process on a file, which may be killed, and what an operator and a publisher do
//! with it by the same binary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

/// The binary under test, where `PLATFORM` names no other one.
const PERILUNE: &str = env!("CARGO_BIN_EXE_perilune");
/// Leases short enough for what a killed consumer held to come again within the run.
const LEASE_MS: &str = "1000";
const QUEUE: &str = "reports";

pub(crate) struct Platform {
    server: Child,
    address: String,
    credential: String,
    subscription: String,
    published: u64,
    folder: tempfile::TempDir,
}

#[derive(Deserialize)]
struct Created {
    credential: String,
}

/// How the subscription stands.
#[derive(Debug, Deserialize)]
pub(crate) struct Standing {
    subscription_id: String,
    lag: u64,
    ready: u64,
    leased: u64,
    expired: u64,
    pub(crate) acknowledged: u64,
}

impl Standing {
    /// Whether nothing is left to deliver.
    pub(crate) const fn is_done(&self) -> bool {
        self.lag + self.ready + self.leased + self.expired == 0
    }
}

fn perilune(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("PLATFORM").unwrap_or_else(|| PERILUNE.into()));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PERILUNE_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn database(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("platform.db").display())
}

/// Runs a command that prints JSON.
fn json<T: for<'de> Deserialize<'de>>(command: &mut Command) -> T {
    let output = command.output().expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("what the command prints")
}

impl Platform {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let database = database(folder.path());
        let create = ["credential", "create", "--database", &database, "--name", "crash", "--queues", QUEUE];
        let Created { credential } = json(perilune(&create).args(["--scopes", "report,consume,manage"]).arg("--json"));
        let (server, address) = serve(folder.path(), "127.0.0.1:0");
        let mut platform = Self { server, address, credential, subscription: String::new(), published: 0, folder };
        let create = ["subscription", "create", "--name", "crash", "--queues", QUEUE, "--start", "earliest"];
        // What is killed again and again is leased again and again.
        let long = ["--window", "4096", "--budget", "1000000", "--backoff-min", "50ms", "--backoff-max", "500ms"];
        let created: Standing = json(platform.command(&create).args(long).arg("--json"));
        platform.subscription = created.subscription_id;
        platform
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn credential(&self) -> &str {
        &self.credential
    }

    pub(crate) fn subscription(&self) -> &str {
        &self.subscription
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = perilune(arguments);
        command.env("PERILUNE_CREDENTIAL", &self.credential).env("PERILUNE_URL", self.url());
        command
    }

    /// Publishes results of new tasks until there are `wanted` events.
    pub(crate) fn publish(&mut self, wanted: u64) {
        if wanted <= self.published {
            return;
        }
        let defaults = ["--queue", QUEUE, "--operation", "GenerateReport", "--status", "succeeded"];
        let mut child = self
            .command(&["publish", "--ndjson", "-"])
            .args(defaults)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let lines: String = (self.published..wanted).map(|n| format!("{{\"task_id\":\"{:032x}\"}}\n", n + 1)).collect();
        child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("the publisher reads");
        assert!(child.wait().expect("ended").success(), "the publisher failed");
        self.published = wanted;
    }

    pub(crate) fn standing(&self) -> Standing {
        json(&mut self.command(&["subscription", "show", &self.subscription, "--json"]))
    }

    /// Kills the server with SIGKILL and starts it again on its port.
    pub(crate) fn kill(&mut self) {
        self.server.kill().expect("killed");
        self.server.wait().expect("ended");
        (self.server, self.address) = serve(self.folder.path(), &self.address);
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        // Its folder goes with it. It may have ended by itself.
        let _ended = self.server.kill();
        let _reaped = self.server.wait();
    }
}

/// Starts the server and waits until it listens.
fn serve(folder: &Path, listen: &str) -> (Child, String) {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).expect("a log");
    let mut server = perilune(&["serve", "--listen", listen, "--database", &database(folder)])
        .args(["--lease-ms", LEASE_MS, "--heartbeat-ms", "1000", "--workers", "1"])
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("the binary runs");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    let Some((_, address)) = line.trim().split_once("//") else {
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        panic!("the platform does not start: {log}");
    };
    (server, address.to_owned())
}
