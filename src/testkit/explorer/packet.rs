//! What a database's client asks for, read off its bytes: enough to name a point, and no more.

use std::collections::BTreeMap;

use crate::sql::EngineName;

/// Characters of a statement that a name keeps.
const SHOWN_CHARS: usize = 72;

/// Names the requests of one connection.
pub(super) struct Requests {
    engine: EngineName,
    /// PostgreSQL's prepared statements by their names; MySQL's latest one under the empty name.
    prepared: BTreeMap<Vec<u8>, String>,
}

impl Requests {
    pub(super) const fn new(engine: EngineName) -> Self {
        Self { engine, prepared: BTreeMap::new() }
    }

    /// What these bytes ask for. Only their first message is looked at.
    pub(super) fn name(&mut self, bytes: &[u8]) -> String {
        let named = match self.engine {
            EngineName::Postgres => self.postgres(bytes),
            _ => self.mysql(bytes),
        };
        named.unwrap_or_else(|| "a request".to_owned())
    }

    /// Type, length, then texts that end in a zero.
    fn postgres(&mut self, bytes: &[u8]) -> Option<String> {
        let (kind, rest) = (*bytes.first()?, bytes.get(5..)?);
        let mut texts = rest.split(|byte| *byte == 0);
        match kind {
            b'Q' => Some(quoted(texts.next()?)),
            b'P' => {
                let (name, text) = (texts.next()?, texts.next()?);
                self.prepared.insert(name.to_vec(), quoted(text));
                Some(format!("the preparation of {}", quoted(text)))
            }
            b'B' => {
                let (_portal, name) = (texts.next()?, texts.next()?);
                self.prepared.get(name).cloned()
            }
            b'C' => Some("the end of a prepared statement".to_owned()),
            b'X' => Some("the end of the connection".to_owned()),
            _ => None,
        }
    }

    /// Length and sequence in four bytes, then the command.
    fn mysql(&mut self, bytes: &[u8]) -> Option<String> {
        let length = u32::from_le_bytes([*bytes.first()?, *bytes.get(1)?, *bytes.get(2)?, 0]);
        let message = bytes.get(4..)?;
        let message = message.get(..usize::try_from(length).ok()?).unwrap_or(message);
        let (command, rest) = message.split_first()?;
        match command {
            0x01 => Some("the end of the connection".to_owned()),
            0x03 => Some(quoted(rest)),
            0x0e => Some("a ping".to_owned()),
            0x16 => {
                self.prepared.insert(Vec::new(), quoted(rest));
                Some(format!("the preparation of {}", quoted(rest)))
            }
            0x17 => self.prepared.get(&[][..]).cloned(),
            0x19 => Some("the end of a prepared statement".to_owned()),
            _ => None,
        }
    }
}

/// A statement on one line, its beginning.
fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().take(SHOWN_CHARS).collect();
    let more = if shown.len() < line.len() { "…" } else { "" };
    format!("`{shown}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn postgres(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&u32::try_from(body.len() + 4).expect("short").to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn mysql(command: u8, rest: &[u8]) -> Vec<u8> {
        let length = u32::try_from(rest.len() + 1).expect("short").to_le_bytes();
        let mut bytes = vec![length[0], length[1], length[2], 0, command];
        bytes.extend_from_slice(rest);
        bytes
    }

    #[test]
    fn a_statement_names_its_point_when_it_is_prepared_and_when_it_runs() {
        let mut requests = Requests::new(EngineName::Postgres);
        assert_eq!(requests.name(&postgres(b'Q', b"COMMIT\0")), "`COMMIT`");
        let parse = postgres(b'P', b"s1\0INSERT INTO\n  invoice VALUES ($1)\0\0\0");
        assert_eq!(requests.name(&parse), "the preparation of `INSERT INTO invoice VALUES ($1)`");
        assert_eq!(requests.name(&postgres(b'B', b"\0s1\0\0\0")), "`INSERT INTO invoice VALUES ($1)`");
        assert_eq!(requests.name(&postgres(b'B', b"\0s2\0\0\0")), "a request");
        let mut requests = Requests::new(EngineName::MySql);
        assert_eq!(requests.name(&mysql(3, b"COMMIT")), "`COMMIT`");
        assert_eq!(requests.name(&mysql(0x16, b"SELECT ?")), "the preparation of `SELECT ?`");
        assert_eq!(requests.name(&mysql(0x17, &[1, 0, 0, 0])), "`SELECT ?`");
    }

    #[test]
    fn bytes_that_mean_nothing_are_a_request() {
        for bytes in [&b""[..], b"Q", b"\0\0\0\x08\x04\xd2\x16\x2f", &[0xff; 3], &[0xff; 64]] {
            assert_eq!(Requests::new(EngineName::Postgres).name(bytes), "a request");
            assert_eq!(Requests::new(EngineName::MySql).name(bytes), "a request");
        }
    }

    #[test]
    fn a_long_statement_is_cut_short() {
        let text = format!("SELECT {}", "x".repeat(200));
        let name = Requests::new(EngineName::MySql).name(&mysql(3, text.as_bytes()));
        assert_eq!(name.chars().count(), SHOWN_CHARS + 3);
        assert!(name.ends_with("x…`"));
    }
}
