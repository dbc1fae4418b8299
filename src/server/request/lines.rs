//! NDJSON lines out of a stream of chunks, each of a bounded length.

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line of the limit's length at most.
    Text(Vec<u8>),
    /// A longer one; its bytes were not kept.
    TooLong,
}

/// Cuts chunks into lines. A line ends with LF; a CR before it is dropped. An empty line is a line, too: it
/// gets a verdict like any other.
#[derive(Debug)]
pub(crate) struct Lines {
    limit: usize,
    line: Vec<u8>,
    over: bool,
}

impl Lines {
    /// Makes a cutter of lines of at most `limit` bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), over: false }
    }

    /// Takes a chunk and hands the lines that end in it to `sink`.
    ///
    /// # Errors
    /// What `sink` refuses with.
    pub(crate) fn feed<E>(&mut self, chunk: &[u8], mut sink: impl FnMut(Line) -> Result<(), E>) -> Result<(), E> {
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|&c| c == b'\n') {
            self.keep(&rest[..end]);
            rest = &rest[end + 1..];
            sink(self.take())?;
        }
        self.keep(rest);
        Ok(())
    }

    /// The last line, where the stream did not end with LF.
    pub(crate) fn finish(mut self) -> Option<Line> {
        (self.over || !self.line.is_empty()).then(|| self.take())
    }

    fn keep(&mut self, bytes: &[u8]) {
        // One more for a CR that will be dropped.
        if self.over || self.line.len() + bytes.len() > self.limit + 1 {
            self.over = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn take(&mut self) -> Line {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if std::mem::take(&mut self.over) || line.len() > self.limit {
            return Line::TooLong;
        }
        Line::Text(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &[u8], step: usize) -> Vec<Line> {
        let mut lines = Lines::new(4);
        let mut found = Vec::new();
        for chunk in text.chunks(step) {
            let taken: Result<(), ()> = lines.feed(chunk, |line| {
                found.push(line);
                Ok(())
            });
            assert_eq!(taken, Ok(()));
        }
        found.extend(lines.finish());
        found
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let text = b"ab\r\n\ncdef\r\ntoolong\nxy";
        let expected = vec![
            Line::Text(b"ab".to_vec()),
            Line::Text(Vec::new()),
            Line::Text(b"cdef".to_vec()),
            Line::TooLong,
            Line::Text(b"xy".to_vec()),
        ];
        for step in [1, 2, 3, 7, 100] {
            assert_eq!(cut(text, step), expected, "{step}");
        }
    }

    #[test]
    fn a_line_over_the_limit_is_not_kept() {
        let mut lines = Lines::new(4);
        let fed: Result<(), ()> = lines.feed(&[b'x'; 100_000], |_| Ok(()));
        assert_eq!(fed, Ok(()));
        assert_eq!(lines.line.capacity(), 0);
    }
}
