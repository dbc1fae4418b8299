//! What a command prints on stdout: a table on a terminal, tab-separated lines in a pipe, JSON where asked.

use std::io::{IsTerminal as _, Write as _};

use comfy_table::{ColumnConstraint, Width};
use serde::Serialize;

use super::exit::{Failure, Outcome};

/// The narrowest terminal that a table is made to fit.
const WIDTH_MIN: u16 = 40;

/// The longest word that is never broken, in characters: ids have 32, times 27.
const UNBROKEN_MAX: usize = 40;
/// What a column has beside its text.
const PADDING: u16 = 2;

/// The flag of every command that prints a table.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct OutputArgs {
    /// Print JSON instead of a table
    #[arg(long, env = "PERILUNE_JSON", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::SetTrue)]
    pub(crate) json: bool,
}

impl OutputArgs {
    /// Prints a list: an array of the items in JSON, a row an item elsewhere.
    ///
    /// # Errors
    /// Where stdout can't be written to.
    pub(crate) fn list<T: Serialize>(
        self,
        columns: &[&str],
        items: &[T],
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Outcome {
        if self.json {
            return print_json(items);
        }
        let rows = items.iter().map(cells).collect::<Vec<_>>();
        print_rows(columns, &rows)
    }

    /// Prints one object: itself in JSON, a line a field elsewhere.
    ///
    /// # Errors
    /// Where stdout can't be written to.
    pub(crate) fn object<T: Serialize>(self, object: &T, fields: &[(&str, String)]) -> Outcome {
        if self.json {
            return print_json(object);
        }
        let rows = fields.iter().map(|(name, value)| vec![(*name).to_owned(), value.clone()]).collect::<Vec<_>>();
        print_rows(&[], &rows)
    }
}

/// Prints a table on a terminal, a line a row elsewhere.
fn print_rows(columns: &[&str], rows: &[Vec<String>]) -> Outcome {
    let is_terminal = std::io::stdout().is_terminal();
    print_text(&if is_terminal { table(columns, rows, None) } else { lines(columns, rows) })
}

/// Prints a text and a line break, and flushes.
///
/// # Errors
/// Where stdout can't be written to.
pub(crate) fn print_text(text: &str) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    let written =
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::Failed(anyhow::Error::new(error).context("can't write to standard output")))
}

fn print_json<T: Serialize + ?Sized>(value: &T) -> Outcome {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Failed(anyhow::Error::new(error).context("can't write the answer as JSON")))?;
    print_text(&text)
}

/// A table, made to fit the terminal or `width` as far as that breaks no word.
fn table(columns: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
    let mut table = comfy_table::Table::new();
    if let Some(width) = width {
        table.set_width(width);
    }
    table.load_style(comfy_table::presets::NOTHING);
    // A terminal that says it is a few columns wide doesn't know, and one letter a line is no table.
    if table.width().is_some_and(|width| width >= WIDTH_MIN) {
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    }
    if !columns.is_empty() {
        table.set_header(columns.iter().map(|column| column.to_uppercase()));
    }
    for row in rows {
        table.add_row(row);
    }
    // An id or a time in pieces can't be copied: rather is the table wider than the terminal.
    let words = (0..table.column_count()).map(|at| {
        let cells = rows.iter().filter_map(|row| row.get(at).map(String::as_str)).chain(columns.get(at).copied());
        cells.flat_map(str::split_whitespace).map(|word| word.chars().count()).max().unwrap_or_default()
    });
    let least = words.map(|longest| u16::try_from(longest.min(UNBROKEN_MAX)).unwrap_or_default() + PADDING);
    table.set_constraints(least.map(|width| ColumnConstraint::LowerBoundary(Width::Fixed(width))));
    table.trim_fmt()
}

/// Tab-separated lines under a line of the columns' names; tabs and breaks within a cell become spaces.
fn lines(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut all = Vec::with_capacity(rows.len() + 1);
    if !columns.is_empty() {
        all.push(columns.join("\t"));
    }
    all.extend(rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect::<Vec<_>>().join("\t")));
    all.join("\n")
}

/// A text with every control character turned to a space: what a server says can't steer a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gets_one_tab_separated_line_a_row() {
        let rows = [vec!["a\tb".to_owned(), "1".to_owned()], vec!["c\nd".to_owned(), "2".to_owned()]];
        assert_eq!(lines(&["name", "count"], &rows), "name\tcount\na b\t1\nc d\t2");
    }

    #[test]
    fn a_terminal_gets_aligned_columns() {
        let text = table(&["name", "count"], &[vec!["invoices".to_owned(), "1".to_owned()]], None);
        let at = text.lines().map(|line| line.find(['C', '1'])).collect::<Vec<_>>();
        assert_eq!(at.first(), at.get(1), "{text}");
        assert!(text.contains("NAME"), "{text}");
    }

    #[test]
    fn an_id_or_a_time_is_never_broken_however_narrow_the_terminal_is() {
        let (id, time) = ("0123456789abcdef0123456789abcdef", "2026-11-30T19:43:57.123456Z");
        let words = "a reason of many words that may well be broken into several lines where there is no room for it";
        let row = [id, words, time, id, time, "enabled"].map(str::to_owned).to_vec();
        let columns = ["hold", "reason", "placed at", "operation", "released at", "state"];
        for width in [40, 80, 100, 120, 200] {
            let text = table(&columns, &[row.clone(), row.clone()], Some(width));
            assert_eq!((text.matches(id).count(), text.matches(time).count()), (4, 4), "{width}:\n{text}");
            assert_eq!(text.matches("enabled").count(), 2, "{width}:\n{text}");
        }
        // What can give way does, where that is enough.
        let text = table(&["id", "reason"], &[vec![id.to_owned(), words.to_owned()]], Some(100));
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.chars().count() <= 100), "{text}");
        // What is longer than every id may be broken.
        let text = table(&["outcome"], &[vec!["x".repeat(500)]], Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
