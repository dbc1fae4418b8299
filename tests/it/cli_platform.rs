//! The platform as an operator runs it: `serve` and `credential` of the real binary.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::value::RawValue;

use super::cli_process::{Finished, Running, perilune, run, run_with_input};

/// A server of the binary's own, on a database in a folder that goes with it.
pub(crate) struct Platform {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) url: String,
    credential: String,
    server: Option<Running>,
}

impl Platform {
    /// A server with short leases, and a credential that may do everything on the queue `reports`.
    pub(crate) fn start() -> Self {
        Self::start_in(&std::env::temp_dir())
    }

    /// The same, in a folder of its own below `parent`.
    pub(crate) fn start_in(parent: &Path) -> Self {
        let folder = tempfile::tempdir_in(parent).expect("a folder");
        let mut platform = Self { folder, url: String::new(), credential: String::new(), server: None };
        platform.serve();
        platform.credential = platform.create_credential("all", "report,consume,manage");
        platform
    }

    /// Starts the server anew, on another port.
    pub(crate) fn serve(&mut self) {
        self.serve_with(&[]);
    }

    /// Starts the server anew at an address.
    pub(crate) fn serve_at(&mut self, address: &str) {
        self.serve_with(&["--listen", address]);
    }

    /// Starts the server anew with these options, on another port where they name none.
    pub(crate) fn serve_with(&mut self, options: &[&str]) {
        let mut command = perilune(["serve", "--lease-ms", "1000", "--heartbeat-ms", "1000"]);
        command.env("PERILUNE_LISTEN", "127.0.0.1:0").args(options);
        let server = Running::start(command.args(["--database", &self.database()]));
        let line = server.line();
        self.url = line.split_whitespace().find(|word| word.starts_with("http")).expect("a URL").to_owned();
        self.server = Some(server);
    }

    /// Ends the server by a signal and waits for it.
    pub(crate) fn stop(&mut self, signal: &str) -> Finished {
        let server = self.server.take().expect("it runs");
        server.signal(signal);
        server.finish()
    }

    /// Reads the server's log up to a line that has this in it.
    #[track_caller]
    pub(crate) fn wait_for(&self, part: &str) -> String {
        self.server.as_ref().expect("it runs").wait_for(part)
    }

    pub(crate) fn database(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("platform.db").display())
    }

    /// A path in the platform's folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Makes a credential for the queue `reports`.
    pub(crate) fn create_credential(&self, name: &str, scopes: &str) -> String {
        let mut command = perilune(["credential", "create", "--name", name, "--queues", "reports", "--scopes", scopes]);
        let made = run(command.args(["--json", "--database", &self.database()])).expect_code(0);
        field(&made.stdout, "credential")
    }

    /// A command that calls this platform.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = perilune(arguments);
        command.env("PERILUNE_URL", &self.url).env("PERILUNE_CREDENTIAL", &self.credential);
        command
    }

    /// Subscribes to everything from the beginning.
    pub(crate) fn subscribe(&self) -> String {
        let arguments =
            ["subscription", "create", "--name", "all", "--queues", "reports", "--start", "earliest", "--json"];
        field(&run(&mut self.command(&arguments)).expect_code(0).stdout, "subscription_id")
    }

    /// Publishes lines that leave out queue, operation and status.
    pub(crate) fn publish(&self, lines: &str) -> Finished {
        let arguments =
            ["publish", "--ndjson", "-", "--queue", "reports", "--operation", "Op", "--status", "succeeded"];
        run_with_input(&mut self.command(&arguments), lines.as_bytes())
    }

    /// A figure of the subscription.
    pub(crate) fn figure(&self, subscription: &str, name: &str) -> u64 {
        let shown = run(&mut self.command(&["subscription", "show", subscription, "--json"])).expect_code(0);
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
        shown[name].as_u64().unwrap_or_else(|| panic!("{name} in {shown}"))
    }
}

/// A text field of one JSON object. The others may be anything, numbers beyond every type too.
#[track_caller]
pub(crate) fn field(json: &str, name: &str) -> String {
    let object: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let value = object.get(name).unwrap_or_else(|| panic!("no {name} in {json}"));
    serde_json::from_str(value.get()).unwrap_or_else(|error| panic!("{name}: {error}: {json}"))
}
