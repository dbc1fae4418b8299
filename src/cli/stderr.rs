//! The way to stderr for logs, notices and lines for a person: a bounded queue with a writer of its own.
//!
//! Nobody may read stderr: a pipe that is full and stays so blocks whoever writes to it. So nobody writes to
//! it but one thread, which nothing waits for longer than a moment. One queue for all keeps the order. It is
//! not the lossy writer of `tracing-appender`: that has logs only, and notices and last words would overtake
//! them.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::panic::PanicHookInfo;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What may wait to be written, in bytes.
const WAITING_MAX: usize = 1 << 20;
/// What one call writes: small enough that a slow reader is seen to read.
const CHUNK: usize = 4096;
/// How long a reader may take nothing until it counts as gone.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// How long an end waits for a reader that is slow.
const FLUSH_MAX: Duration = Duration::from_secs(10);

/// Tells a line that belongs to the command's result.
///
/// Waits a moment for room where a slow reader left none. A reader that has gone is no reason to panic, as
/// `eprintln!` would: what the exit code says stays true.
pub(crate) fn tell(line: impl Display) {
    queue().tell(&text(line));
}

/// Tells a line that is dropped and counted where there is no room. Never waits.
pub(crate) fn offer(line: impl Display) {
    queue().offer(&text(line));
}

/// Waits until all is written, as long as somebody reads.
pub(crate) fn flush() {
    queue().flush(FLUSH_MAX);
}

/// Waits a moment until all is written.
pub(crate) fn flush_at_once() {
    queue().flush(IDLE_MAX / 4);
}

/// Reports a panic, as the standard hook does, but by the queue.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic: &PanicHookInfo<'_>| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("<unnamed>");
        let backtrace = std::backtrace::Backtrace::capture();
        match backtrace.status() {
            std::backtrace::BacktraceStatus::Captured => offer(format_args!("thread '{name}' {panic}\n{backtrace}")),
            _ => offer(format_args!("thread '{name}' {panic}")),
        }
        // The end of this thread is the end of the process, and nobody else will wait for the line.
        if name == "main" {
            flush();
        }
    }));
}

/// Where the logs are written: each write is one entry, dropped where there is no room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        queue().offer(entry);
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn text(line: impl Display) -> Vec<u8> {
    format!("{line}\n").into_bytes()
}

fn queue() -> &'static Queue {
    static QUEUE: OnceLock<Queue> = OnceLock::new();
    static WRITER: OnceLock<()> = OnceLock::new();
    let queue = QUEUE.get_or_init(Queue::default);
    WRITER.get_or_init(|| {
        // A copy of the descriptor: whoever holds the lock of `std::io::stderr` waits for nobody here.
        let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
        let writer = std::thread::Builder::new().name("stderr".to_owned());
        let started = stderr.and_then(|stderr| writer.spawn(move || queue.write_to(stderr)));
        if started.is_err() {
            queue.lock().deaf = true;
        }
    });
    queue
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What nobody has begun to write.
    waiting: Vec<u8>,
    /// How much of what was taken from `waiting` is not written yet.
    in_hand: usize,
    /// How much has been written in all.
    written: u64,
    /// Lines that were dropped since the last one that was not.
    dropped: u64,
    /// Nobody took anything for [`IDLE_MAX`], so that nobody is waited for until somebody does.
    deaf: bool,
}

impl State {
    const fn has_room(&self, length: usize) -> bool {
        // One that is larger than the whole queue has a place in an empty one.
        let pending = self.waiting.len() + self.in_hand;
        pending == 0 || pending + length <= WAITING_MAX
    }

    const fn pending(&self) -> bool {
        self.in_hand > 0 || !self.waiting.is_empty()
    }

    fn put(&mut self, entry: &[u8]) {
        if !self.has_room(entry.len()) {
            self.dropped += 1;
            return;
        }
        self.confess();
        self.waiting.extend_from_slice(entry);
    }

    /// Says that something is missing, where it is.
    fn confess(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let line = format!("{dropped} lines were dropped here: stderr was not read fast enough\n");
            self.waiting.extend_from_slice(line.as_bytes());
        }
    }
}

impl Queue {
    /// Nothing that panics runs under the lock, and what it holds would still be sound.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self, entry: &[u8]) {
        self.lock().put(entry);
        self.changed.notify_all();
    }

    fn tell(&self, entry: &[u8]) {
        let mut state = self.wait(self.lock(), FLUSH_MAX, |state| state.has_room(entry.len()));
        state.put(entry);
        drop(state);
        self.changed.notify_all();
    }

    fn flush(&self, max: Duration) {
        let mut state = self.lock();
        state.confess();
        self.changed.notify_all();
        drop(self.wait(state, max, |state| !state.pending()));
    }

    /// Waits until `enough`, for `max` and only as long as the reader takes something now and then.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        max: Duration,
        enough: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let begun = Instant::now();
        let (mut moved, mut seen) = (begun, state.written);
        loop {
            if enough(&state) || state.deaf {
                return state;
            }
            let idle_left = IDLE_MAX.saturating_sub(moved.elapsed());
            let left = max.saturating_sub(begun.elapsed());
            if idle_left.is_zero() {
                state.deaf = true;
                return state;
            }
            if left.is_zero() {
                return state;
            }
            state = self.changed.wait_timeout(state, left.min(idle_left)).unwrap_or_else(PoisonError::into_inner).0;
            if state.written != seen {
                (moved, seen) = (Instant::now(), state.written);
            }
        }
    }

    /// The writer: for as long as the process lives.
    fn write_to(&self, mut stderr: impl Write) {
        let mut entries = Vec::new();
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            entries.clear();
            std::mem::swap(&mut entries, &mut state.waiting);
            state.in_hand = entries.len();
            drop(state);
            for chunk in entries.chunks(CHUNK) {
                // A stream that is closed takes nothing, and nothing else can be done about it.
                let _ = stderr.write_all(chunk);
                let mut state = self.lock();
                state.in_hand -= chunk.len();
                state.written += chunk.len() as u64;
                state.deaf = false;
                drop(state);
                self.changed.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    /// A stream whose reader takes a chunk for each leave it is given, and all once there are no more.
    struct Reader {
        leave: mpsc::Receiver<()>,
        read: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.leave.recv();
            let _ = self.read.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn start() -> (Arc<Queue>, mpsc::Sender<()>, mpsc::Receiver<Vec<u8>>) {
        let queue = Arc::new(Queue::default());
        let ((give, leave), (read, taken)) = (mpsc::channel(), mpsc::channel());
        let writing = Arc::clone(&queue);
        std::thread::spawn(move || writing.write_to(Reader { leave, read }));
        (queue, give, taken)
    }

    fn all(taken: &mpsc::Receiver<Vec<u8>>) -> String {
        String::from_utf8(taken.try_iter().flatten().collect()).expect("text")
    }

    #[test]
    fn what_was_told_is_there_after_a_flush_and_in_order() {
        let (queue, give, taken) = start();
        drop(give);
        let lines = (0..5_000).map(|number| format!("{number}\n")).collect::<Vec<_>>();
        for (number, line) in lines.iter().enumerate() {
            if number % 2 == 0 { queue.offer(line.as_bytes()) } else { queue.tell(line.as_bytes()) }
        }
        queue.flush(FLUSH_MAX);
        assert_eq!(all(&taken), lines.concat());
    }

    #[test]
    fn a_stream_that_nobody_reads_costs_lines_and_never_the_work() {
        let (queue, give, taken) = start();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        let offered = 2 * WAITING_MAX / line.len();
        (0..offered).for_each(|_| queue.offer(&line));
        let pending = {
            let state = queue.lock();
            state.waiting.len() + state.in_hand
        };
        assert!(pending <= WAITING_MAX, "{pending}");
        // Nobody reads: this ends by itself, and the next one doesn't wait again.
        queue.flush(FLUSH_MAX);
        assert!(queue.lock().deaf);
        queue.tell(&line);
        // Somebody reads at last.
        drop(give);
        while queue.lock().deaf {
            std::thread::yield_now();
        }
        queue.tell(b"the last\n");
        queue.flush(FLUSH_MAX);
        let text = all(&taken);
        let said = text.lines().filter_map(|line| line.split_once(" lines were dropped here: "));
        let dropped = said.map(|(count, _)| count.parse::<usize>().expect("a number")).sum::<usize>();
        let kept = text.lines().filter(|line| line.starts_with('x')).count();
        assert_eq!(kept + dropped, offered + 1);
        assert!(text.ends_with("the last\n"), "a living reader is waited for");
    }
}
