//! What a command prints on stdout: a table on a terminal, tab-separated lines in a pipe, JSON where asked.

use std::io::{IsTerminal as _, Write as _};

use serde::Serialize;

use super::exit::{Failure, Outcome};

/// The narrowest terminal that a table is made to fit.
const WIDTH_MIN: u16 = 40;

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
        if std::io::stdout().is_terminal() {
            print_text(&table(columns, &rows))
        } else {
            print_text(&lines(columns, &rows))
        }
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
        if std::io::stdout().is_terminal() { print_text(&table(&[], &rows)) } else { print_text(&lines(&[], &rows)) }
    }
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

fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = comfy_table::Table::new();
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
        let text = table(&["name", "count"], &[vec!["invoices".to_owned(), "1".to_owned()]]);
        let at = text.lines().map(|line| line.find(['C', '1'])).collect::<Vec<_>>();
        assert_eq!(at.first(), at.get(1), "{text}");
        assert!(text.contains("NAME"), "{text}");
    }
}
