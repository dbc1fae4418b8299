//! How far a long command is: a bar on a terminal, a plain line now and then in a pipe. Both on stderr.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a pipe gets a line.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// The progress of one piece of work.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    total: Option<u64>,
    done: u64,
    show: Show,
}

#[derive(Debug)]
enum Show {
    Bar(ProgressBar),
    Lines { last: Instant },
}

impl Progress {
    /// Starts at zero of `total`, which is unknown for a stream.
    pub(crate) fn start(what: &'static str, total: Option<u64>) -> Self {
        let show = if std::io::stderr().is_terminal() {
            Show::Bar(bar(what, total))
        } else {
            Show::Lines { last: Instant::now() }
        };
        Self { what, total, done: 0, show }
    }

    /// Moves to `done`, with a word on how it stands.
    pub(crate) fn at(&mut self, done: u64, message: &str) {
        self.done = done;
        match &mut self.show {
            Show::Bar(bar) => {
                bar.set_position(done);
                bar.set_message(message.to_owned());
            }
            Show::Lines { last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                super::stderr::offer(line(self.what, done, self.total, message));
            }
            Show::Lines { .. } => {}
        }
    }

    /// Writes a line that stays, above the bar where there is one.
    pub(crate) fn note(&self, text: &str) {
        match &self.show {
            Show::Bar(bar) => bar.suspend(|| {
                super::stderr::tell(text);
                super::stderr::flush();
            }),
            Show::Lines { .. } => super::stderr::tell(text),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        if let Show::Bar(bar) = self.show {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &'static str, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{prefix} [{bar:20}] {human_pos}/{human_len} {msg}"),
        None => (ProgressBar::new_spinner(), "{prefix} {spinner} {human_pos} {msg}"),
    };
    // No colours in it, so that NO_COLOR has nothing to take away.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_prefix(what)
}

fn line(what: &str, done: u64, total: Option<u64>, message: &str) -> String {
    let of = total.map(|total| format!("/{total}")).unwrap_or_default();
    format!("{what}: {done}{of} {message}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_how_far_and_how_it_stands() {
        assert_eq!(line("published", 20, Some(40), "1 refused"), "published: 20/40 1 refused");
        assert_eq!(line("published", 20, None, ""), "published: 20");
    }
}
