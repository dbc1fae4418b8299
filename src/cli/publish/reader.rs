//! Reads NDJSON into batches, on a thread of its own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};

use anyhow::Context as _;
use perilune_proto::limits::BATCH_LINES_MAX;
use tokio::sync::mpsc;

use super::Defaults;
use super::line::{BadLine, LINE_BYTES_MAX, Line};

/// Most bytes of a batch, one line excepted.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Lines that are sent together, in order; and those that can't be sent at all.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) lines: Vec<Line>,
    pub(super) bad: Vec<(u64, BadLine)>,
    bytes: usize,
}

impl Batch {
    const fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.bad.is_empty()
    }

    const fn is_full(&self) -> bool {
        self.lines.len() + self.bad.len() >= BATCH_LINES_MAX || self.bytes >= BATCH_BYTES_MAX
    }
}

/// How many lines a file has; `None` for stdin and whatever else can't be read twice.
pub(super) fn count(file: &str) -> Option<u64> {
    let file = File::open(file).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?;
    let mut reader = BufReader::with_capacity(BATCH_BYTES_MAX, file);
    let (mut breaks, mut last) = (0, b'\n');
    loop {
        let buffer = reader.fill_buf().ok()?;
        let Some(end) = buffer.last() else { break };
        last = *end;
        breaks += buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
        let length = buffer.len();
        reader.consume(length);
    }
    Some(breaks + u64::from(last != b'\n'))
}

/// Starts to read a file, or stdin with `-`. One batch is read ahead.
///
/// # Errors
/// Where the file can't be opened.
pub(super) fn start(file: &str, defaults: Defaults) -> anyhow::Result<mpsc::Receiver<std::io::Result<Batch>>> {
    let source: Box<dyn Read + Send> = if file == "-" {
        Box::new(stdin())
    } else {
        Box::new(File::open(file).with_context(|| format!("--ndjson {file} can't be read"))?)
    };
    let (sender, receiver) = mpsc::channel(1);
    let body = move || {
        let mut batches = Batches { reader: BufReader::with_capacity(BATCH_BYTES_MAX, source), defaults, number: 0 };
        while let Some(batch) = batches.read().transpose() {
            let failed = batch.is_err();
            if sender.blocking_send(batch).is_err() || failed {
                break;
            }
        }
    };
    std::thread::Builder::new().name("ndjson".to_owned()).spawn(body).context("can't start a thread")?;
    Ok(receiver)
}

struct Batches<R> {
    reader: BufReader<R>,
    defaults: Defaults,
    number: u64,
}

impl<R: Read> Batches<R> {
    /// The next batch; `None` at the end. A slow source gets its lines sent as they come.
    fn read(&mut self) -> std::io::Result<Option<Batch>> {
        let mut batch = Batch::default();
        while !batch.is_full() && (batch.is_empty() || self.reader.buffer().contains(&b'\n')) {
            let Some(bytes) = self.read_line()? else { break };
            self.number += 1;
            match bytes {
                Some(bytes) if bytes.trim_ascii().is_empty() => {}
                Some(bytes) => match Line::complete(self.number, &bytes, &self.defaults) {
                    Ok(line) => {
                        batch.bytes += line.text.len();
                        batch.lines.push(line);
                    }
                    Err(bad) => batch.bad.push((self.number, bad)),
                },
                None => batch.bad.push((self.number, BadLine::TooLong)),
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// The next line's bytes, `Some(None)` for one over the limit; `None` at the end.
    fn read_line(&mut self) -> std::io::Result<Option<Option<Vec<u8>>>> {
        let mut bytes = Vec::new();
        let read = (&mut self.reader).take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        if bytes.last() == Some(&b'\n') || read <= LINE_BYTES_MAX {
            return Ok(Some(Some(bytes)));
        }
        self.skip_line()?;
        Ok(Some(None))
    }

    /// Passes over the rest of a line without keeping it.
    fn skip_line(&mut self) -> std::io::Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let passed = end.map_or(buffer.len(), |at| at + 1);
            self.reader.consume(passed);
            if end.is_some() || passed == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(text: &[u8]) -> Vec<Batch> {
        let reader = BufReader::with_capacity(BATCH_BYTES_MAX, text);
        let mut batches = Batches { reader, defaults: Defaults::default(), number: 0 };
        std::iter::from_fn(|| batches.read().expect("readable")).collect()
    }

    #[test]
    fn lines_are_numbered_as_in_the_file_and_empty_ones_are_passed_over() {
        let all = batches(b"{\"a\":1}\n\n{\"a\":2}\r\nnonsense\n{\"a\":3}");
        let numbers = all.iter().flat_map(|batch| &batch.lines).map(|line| line.number).collect::<Vec<_>>();
        assert_eq!(numbers, [1, 3, 5]);
        assert_eq!(all.iter().flat_map(|batch| &batch.bad).map(|(number, _)| *number).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_batch_has_a_thousand_lines_at_most() {
        let all = batches("{}\n".repeat(2_001).as_bytes());
        assert_eq!(all.iter().map(|batch| batch.lines.len()).collect::<Vec<_>>(), [1_000, 1_000, 1]);
    }

    #[test]
    fn a_line_over_the_limit_is_bad_and_spoils_no_other() {
        let text = format!("{{\"a\":\"{}\"}}\n{{}}\n", "x".repeat(LINE_BYTES_MAX * 3));
        let all = batches(text.as_bytes());
        assert!(matches!(all[0].bad[..], [(1, BadLine::TooLong)]), "{all:?}");
        assert_eq!(all.iter().flat_map(|batch| &batch.lines).map(|line| line.number).collect::<Vec<_>>(), [2]);
    }
}
