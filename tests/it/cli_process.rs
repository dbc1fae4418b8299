//! Runs the real binary.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any step of a test takes on a busy machine; only a failure waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The binary with these arguments, and no setting from outside.
pub(crate) fn perilune<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PERILUNE_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a finished run left.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Fails unless the exit code is this one.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Fails unless stderr has each of these.
    #[track_caller]
    pub(crate) fn expect_stderr(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in {self:#?}");
        }
        self
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Finished {
    command.output().expect("the binary runs").into()
}

/// Runs a command to its end with this on its stdin.
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> Finished {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that refuses its arguments reads nothing.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends").into()
}

/// A run that is watched line by line, and killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the binary runs");
        let stdout = child.stdout.take().map(|pipe: ChildStdout| lines(BufReader::new(pipe))).expect("a pipe");
        let stderr = child.stderr.take().map(|pipe: ChildStderr| lines(BufReader::new(pipe))).expect("a pipe");
        Self { child, stdout, stderr }
    }

    /// The next line of stdout.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.stdout.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line of stdout; stderr: {:?}", self.said()))
    }

    /// Reads stderr up to a line that has this in it.
    #[track_caller]
    pub(crate) fn wait_for(&self, part: &str) -> String {
        let mut seen = Vec::new();
        loop {
            let line = self.stderr.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {part:?} in {seen:#?}"));
            if line.contains(part) {
                return line;
            }
            seen.push(line);
        }
    }

    /// What stderr holds now and nobody has read.
    pub(crate) fn said(&self) -> Vec<String> {
        self.stderr.try_iter().collect()
    }

    /// Sends a signal by name, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success(), "the process is there");
    }

    /// Waits for the end and gives what is left of stdout and stderr.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Finished {
        let deadline = std::time::Instant::now() + PATIENCE;
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                break status.code();
            }
            assert!(std::time::Instant::now() < deadline, "it did not end; stderr: {:#?}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        };
        let rest = |lines: &mpsc::Receiver<String>| lines.iter().map(|line| line + "\n").collect::<String>();
        Finished { code, stdout: rest(&self.stdout), stderr: rest(&self.stderr) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fails unless a process comes to its end, reaped by somebody or not.
#[track_caller]
pub(crate) fn expect_dead(pid: &str) {
    let deadline = std::time::Instant::now() + PATIENCE;
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    while lives() {
        assert!(std::time::Instant::now() < deadline, "process {pid} outlived its consumer");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads a pipe on a thread, so that it never fills.
fn lines(pipe: BufReader<impl std::io::Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut pipe = pipe;
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            line.clear();
            if sender.send(text).is_err() {
                // Nobody listens any more; the process must still be able to write.
                let _ = pipe.read_to_end(&mut line);
                break;
            }
        }
    });
    receiver
}
