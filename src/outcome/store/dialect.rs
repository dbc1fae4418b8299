//! Statements in an engine's own words.
//!
//! A template is a constant of this module's siblings, written once for the three engines:
//!
//! | in the template | becomes |
//! | --- | --- |
//! | `?` | `$1`, `$2`, … on PostgreSQL |
//! | `{prefix}` | the tables' prefix |
//! | `{lock}` | `FOR UPDATE`, nothing on SQLite |
//! | `{lock_operations}` | on PostgreSQL `FOR UPDATE OF o`, nothing elsewhere ([`Dialect::locks_operations`]) |
//! | `{ids}` | as many ids as there are, which [`Ids`] binds |
//! | `{insert}` … `{unless_present}` | an INSERT that leaves an existing row as it is |

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use sqlx::AssertSqlSafe;

use crate::sql::{EngineName, TablePrefix};

use super::engine::{OutcomeEngine, Value};

/// A statement in an engine's own words. Cloning shares the text.
#[doc(hidden)]
#[derive(Clone)]
pub struct Prepared {
    text: Arc<str>,
    kept: bool,
}

impl Prepared {
    pub(super) fn sql(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(Arc::clone(&self.text))
    }

    /// Whether the connection should keep it prepared: not one whose length varies.
    pub(super) const fn is_kept(&self) -> bool {
        self.kept
    }
}

/// Ids for a statement's `{ids}`.
pub(in crate::outcome) struct Ids<'a> {
    ids: Vec<&'a str>,
    json: Option<String>,
}

impl Ids<'_> {
    /// What is bound for them.
    pub(in crate::outcome) fn values(&self) -> Vec<Value<'_>> {
        match &self.json {
            Some(json) => vec![Value::Text(json)],
            None => self.ids.iter().map(|id| Value::Text(id)).collect(),
        }
    }
}

/// Puts templates into the words of one engine and prefix, each once.
pub(in crate::outcome) struct Dialect {
    engine: EngineName,
    words: Vec<(&'static str, String)>,
    rendered: RwLock<HashMap<&'static str, Prepared>>,
}

impl Dialect {
    pub(in crate::outcome) fn new<DB: OutcomeEngine>(prefix: &TablePrefix) -> Self {
        let [insert, unless_present] = DB::INSERT_UNLESS_PRESENT;
        let postgres = DB::ENGINE == EngineName::Postgres;
        let mut words = vec![
            ("{prefix}", prefix.to_string()),
            ("{lock_operations}", if postgres { "FOR UPDATE OF o".to_owned() } else { String::new() }),
            ("{lock}", DB::LOCK_ROWS.to_owned()),
            ("{insert}", insert.to_owned()),
            ("{unless_present}", unless_present.to_owned()),
        ];
        if postgres {
            // One parameter however many there are, so that the statement stays prepared.
            words.push(("{ids}", "SELECT jsonb_array_elements_text(?::jsonb)".to_owned()));
        }
        Self { engine: DB::ENGINE, words, rendered: RwLock::default() }
    }

    /// The statement of a template.
    pub(in crate::outcome) fn statement(&self, template: &'static str) -> Prepared {
        let kept = self.rendered.read().unwrap_or_else(PoisonError::into_inner).get(template).cloned();
        kept.unwrap_or_else(|| {
            let prepared = Prepared { text: self.render(template).into(), kept: true };
            let mut rendered = self.rendered.write().unwrap_or_else(PoisonError::into_inner);
            rendered.insert(template, prepared.clone());
            prepared
        })
    }

    /// Whose words these are.
    pub(in crate::outcome) const fn engine(&self) -> EngineName {
        self.engine
    }

    /// Whether `{lock_operations}` locks.
    pub(in crate::outcome) fn locks_operations(&self) -> bool {
        self.engine == EngineName::Postgres
    }

    /// The statement of a template whose `{ids}` stands for these.
    pub(in crate::outcome) fn statement_for(&self, template: &'static str, ids: &Ids<'_>) -> Prepared {
        match ids.json {
            Some(_) => self.statement(template),
            None => {
                let list = vec!["?"; ids.ids.len()].join(", ");
                Prepared { text: self.render(&template.replace("{ids}", &list)).into(), kept: false }
            }
        }
    }

    /// Ids for `{ids}`.
    pub(in crate::outcome) fn ids<'a>(&self, ids: Vec<&'a str>) -> Ids<'a> {
        let json = (self.engine == EngineName::Postgres).then(|| serde_json::json!(ids).to_string());
        Ids { ids, json }
    }

    /// The statement of a template whose `{list}` stands for `count` repetitions of `item`.
    pub(in crate::outcome) fn statement_for_many(
        &self,
        template: &'static str,
        item: &'static str,
        count: usize,
    ) -> Prepared {
        let list = vec![item; count].join(", ");
        Prepared { text: self.render(&template.replace("{list}", &list)).into(), kept: false }
    }

    fn render(&self, template: &str) -> String {
        let mut text = template.to_owned();
        for (word, meaning) in &self.words {
            text = text.replace(word, meaning);
        }
        if self.engine != EngineName::Postgres {
            return text;
        }
        let mut numbered = String::with_capacity(text.len() + 32);
        for (at, part) in text.split('?').enumerate() {
            if at > 0 {
                // Writing to a string can't fail.
                _ = write!(numbered, "${at}");
            }
            numbered.push_str(part);
        }
        numbered
    }
}
