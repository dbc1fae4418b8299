//! The smallest parts: strings, numbers, words, white space.

use super::Scanner;
use crate::json::Flaw;
use crate::json::text::{escape_end, next_special};
use crate::json::value::Kind;

impl Scanner<'_> {
    /// Reads a string, number, boolean or null, and tells whether it is a string with escapes.
    #[inline(always)]
    pub(super) fn scalar(&mut self) -> Result<(Kind, bool), Flaw> {
        match self.peek() {
            Some(b'"') => self.string().map(|escaped| (Kind::String, escaped)),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| (Kind::Number, false)),
            Some(b't') => self.word("true", Kind::Boolean),
            Some(b'f') => self.word("false", Kind::Boolean),
            Some(b'n') => self.word("null", Kind::Null),
            Some(_) => Err(Flaw::Unexpected),
            None => Err(Flaw::Truncated),
        }
    }

    /// Reads a string from its quote on and tells whether it has escapes.
    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<bool, Flaw> {
        let mut escaped = false;
        self.at += 1;
        loop {
            self.at = next_special(self.bytes, self.at);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.at = escape_end(self.bytes, self.at).ok_or(Flaw::Escape)?;
                }
                Some(_) => return Err(Flaw::Control),
                None => return Err(Flaw::Truncated),
            }
        }
    }

    #[inline(always)]
    pub(super) fn number(&mut self) -> Result<(), Flaw> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn digits(&mut self) -> Result<(), Flaw> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Flaw::Number) }
    }

    #[inline(always)]
    pub(super) fn word(&mut self, word: &str, kind: Kind) -> Result<(Kind, bool), Flaw> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok((kind, false))
        } else {
            Err(Flaw::Unexpected)
        }
    }

    #[inline(always)]
    pub(super) fn space(&mut self) {
        self.token();
    }

    /// Skips white space and shows what comes.
    #[inline(always)]
    pub(super) fn token(&mut self) -> Option<u8> {
        loop {
            let c = self.peek()?;
            // Mostly there is no white space, and what comes is above a space.
            if c > b' ' || !matches!(c, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(c);
            }
            self.at += 1;
        }
    }

    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline(always)]
    pub(super) fn eat(&mut self, c: u8) -> bool {
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }

    #[inline(always)]
    pub(super) fn key_text(&mut self) -> Result<bool, Flaw> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(_) => Err(Flaw::Unexpected),
            None => Err(Flaw::Truncated),
        }
    }

    #[inline(always)]
    pub(super) fn colon(&mut self) -> Result<(), Flaw> {
        match self.token() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(Flaw::Unexpected),
            None => return Err(Flaw::Truncated),
        }
        self.space();
        Ok(())
    }
}
