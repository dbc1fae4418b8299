//! Statements in an engine's own words.
//!
//! A template is a constant of this module's siblings, written once for the three engines:
//!
//! | in the template | becomes |
//! | --- | --- |
//! | `?` | `$1`, `$2`, … on PostgreSQL |
//! | `{prefix}` | the tables' prefix |
//! | `{lock}` | `FOR UPDATE`, nothing on SQLite |
//! | `{insert}` … `{unless_present}` | an INSERT that leaves an existing row as it is |

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use sqlx::AssertSqlSafe;

use crate::sql::{EngineName, TablePrefix};

use super::engine::OutcomeEngine;

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

/// Puts templates into the words of one engine and prefix, each once.
pub(in crate::outcome) struct Dialect {
    engine: EngineName,
    words: [(&'static str, String); 4],
    rendered: RwLock<HashMap<&'static str, Prepared>>,
}

impl Dialect {
    pub(in crate::outcome) fn new<DB: OutcomeEngine>(prefix: &TablePrefix) -> Self {
        let [insert, unless_present] = DB::INSERT_UNLESS_PRESENT;
        let words = [
            ("{prefix}", prefix.to_string()),
            ("{lock}", DB::LOCK_ROWS.to_owned()),
            ("{insert}", insert.to_owned()),
            ("{unless_present}", unless_present.to_owned()),
        ];
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
