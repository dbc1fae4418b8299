//! A worker as its killer sees it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::platform::Platform;
use crate::servers::Place;

/// What a worker has told so far.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Told {
    /// Handlers that began.
    pub(crate) begun: u64,
    ended: u64,
    gone: bool,
}

impl Told {
    /// Whether a handler was running.
    pub(crate) const fn at_work(self) -> bool {
        self.begun > self.ended
    }
}

/// What it has told, and a bell for whoever waits for more.
type Heard = Arc<(Mutex<Told>, Condvar)>;

/// A running worker. Killed when it is dropped.
pub(crate) struct Worker {
    child: Child,
    reader: Option<JoinHandle<()>>,
    told: Heard,
}

impl Worker {
    pub(crate) fn start(place: &Place, platform: &Platform) -> Self {
        // SQLite has one writer: a transaction that takes its time holds up all others.
        let pause_ms = if place.engine() == "SQLite" { "20" } else { "80" };
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["work", place.url(), place.prefix(), &platform.url(), platform.subscription(), pause_ms])
            .env("PERILUNE_CREDENTIAL", platform.credential())
            .stdout(Stdio::piped())
            .stderr(if std::env::var_os("LOUD").is_some() { Stdio::inherit() } else { Stdio::null() })
            .spawn()
            .expect("a worker");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let told = Heard::default();
        let hears = Arc::clone(&told);
        let reader = std::thread::spawn(move || {
            let (told, bell) = &*hears;
            for line in lines.map_while(Result::ok) {
                let mut told = told.lock().expect("no panic");
                if line == "b" {
                    told.begun += 1;
                } else {
                    told.ended += 1;
                }
                bell.notify_all();
            }
            told.lock().expect("no panic").gone = true;
            bell.notify_all();
        });
        Self { child, reader: Some(reader), told }
    }

    /// Waits until a handler runs, but no longer than so long, and not for one that has ended.
    pub(crate) fn wait_for_work(&self, limit: Duration) {
        let (told, bell) = &*self.told;
        let told = told.lock().expect("no panic");
        drop(bell.wait_timeout_while(told, limit, |told| !told.at_work() && !told.gone).expect("no panic"));
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Kills it with SIGKILL and says what it had told.
    pub(crate) fn kill(mut self) -> Told {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        self.heard()
    }

    /// Tells it to stop and lets it end. True where it ended in order.
    pub(crate) fn finish(mut self) -> (Told, bool) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        kill(pid, Signal::SIGTERM).expect("told");
        let ended = self.child.wait().expect("ended");
        (self.heard(), ended.success())
    }

    /// What it has told so far.
    pub(crate) fn told(&self) -> Told {
        *self.told.0.lock().expect("no panic")
    }

    fn heard(&mut self) -> Told {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("heard");
        }
        self.told()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
