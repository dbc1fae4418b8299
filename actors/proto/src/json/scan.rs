//! One pass over a text: syntax, nesting and duplicate keys; [`shaped`] adds the slots of a shape.

mod shaped;
mod token;

use super::Flaw;
use super::keys::{Keys, Level, TEXT_BYTES_MAX};
use super::text::unescape;
use super::value::{Kind, Value};
use crate::limits::FRAME_DEPTH_MAX;

/// The place of reading in a text. `at` stands where reading ended when a flaw was found.
pub(super) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pub(super) at: usize,
    depth: usize,
    depth_max: usize,
    /// The deepest level since the last value began.
    deepest: usize,
    /// Bit `n`: the container on level `n + 1` is an object.
    objects: u64,
    /// The keys of the object on each level.
    levels: [Level; FRAME_DEPTH_MAX],
    keys: Keys,
    /// Names of the known fields that a flaw lies in, innermost first.
    pub(super) trail: Vec<&'static str>,
    /// Whether any key was a case twin.
    pub(super) twins: bool,
}

impl<'a> Scanner<'a> {
    /// Begins at the text's first character that is not white space.
    pub(super) fn new(text: &'a str, bytes_max: usize, depth_max: usize) -> Result<Self, Flaw> {
        let mut scanner = Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            depth: 0,
            depth_max: depth_max.min(FRAME_DEPTH_MAX),
            deepest: 0,
            objects: 0,
            levels: [Level::default(); FRAME_DEPTH_MAX],
            keys: Keys::default(),
            trail: Vec::new(),
            twins: false,
        };
        if text.len() > bytes_max.min(TEXT_BYTES_MAX) {
            return Err(Flaw::TooLong);
        }
        if text.starts_with('\u{feff}') {
            return Err(Flaw::ByteOrderMark);
        }
        scanner.space();
        Ok(scanner)
    }

    /// The elements of an array that was read before.
    pub(super) fn elements(array: &'a str) -> impl Iterator<Item = Value> {
        let mut scanner = Self::new(array, TEXT_BYTES_MAX, FRAME_DEPTH_MAX).ok();
        std::iter::from_fn(move || {
            let scanner = scanner.as_mut()?;
            // The opening bracket, or the comma behind an element.
            scanner.peek()?;
            scanner.at += 1;
            scanner.space();
            let element = scanner.value().ok()?;
            scanner.space();
            Some(element)
        })
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<(), Flaw> {
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(Flaw::Trailing) }
    }

    /// Reads any value. Its lone surrogates are kept, everything else is checked.
    pub(super) fn value(&mut self) -> Result<Value, Flaw> {
        let start = self.at;
        let level = self.depth;
        let (kind, escaped) = self.skip()?;
        let mut value = Value::ABSENT;
        self.fill(&mut value, start, level, kind, escaped);
        Ok(value)
    }

    #[inline(always)]
    fn fill(&self, value: &mut Value, start: usize, level: usize, kind: Kind, escaped: bool) {
        // At most TEXT_BYTES_MAX bytes and FRAME_DEPTH_MAX levels, which fit.
        value.start = start as u32;
        value.end = self.at as u32;
        value.kind = kind;
        value.escaped = escaped;
        value.levels = (self.deepest - level) as u8;
    }

    /// Passes over any value, and tells what it is and whether it is a string with escapes.
    fn skip(&mut self) -> Result<(Kind, bool), Flaw> {
        self.deepest = self.depth;
        match self.peek() {
            Some(b'{') => self.containers().map(|()| (Kind::Object, false)),
            Some(b'[') => self.containers().map(|()| (Kind::Array, false)),
            _ => self.scalar(),
        }
    }

    /// Reads a whole object or array without recursion.
    fn containers(&mut self) -> Result<(), Flaw> {
        let outside = self.depth;
        loop {
            if self.value_or_bracket()? && self.close_what_ends(outside)? {
                return Ok(());
            }
            if self.in_object() {
                self.key()?;
            }
        }
    }

    /// Reads a scalar or an empty container and says true, or enters a container and says false.
    #[inline(always)]
    fn value_or_bracket(&mut self) -> Result<bool, Flaw> {
        match self.peek() {
            Some(b'{') => {
                self.open(Container::Object)?;
                if !self.eat(b'}') {
                    return Ok(false);
                }
                self.close_object()?;
            }
            Some(b'[') => {
                self.open(Container::Array)?;
                if !self.eat(b']') {
                    return Ok(false);
                }
                self.depth -= 1;
            }
            _ => drop(self.scalar()?),
        }
        Ok(true)
    }

    /// After a value: closes containers up to the next comma. True when none is open any more.
    #[inline(always)]
    fn close_what_ends(&mut self, outside: usize) -> Result<bool, Flaw> {
        while self.depth > outside {
            let in_object = self.in_object();
            match self.token() {
                Some(b',') => {
                    self.at += 1;
                    self.space();
                    return Ok(false);
                }
                Some(b'}') if in_object => {
                    self.at += 1;
                    self.close_object()?;
                }
                Some(b']') if !in_object => {
                    self.at += 1;
                    self.depth -= 1;
                }
                Some(_) => return Err(Flaw::Unexpected),
                None => return Err(Flaw::Truncated),
            }
        }
        Ok(true)
    }

    #[inline(always)]
    fn in_object(&self) -> bool {
        self.objects >> (self.depth - 1) & 1 == 1
    }

    /// Opens a container and goes to the first character inside.
    #[inline(always)]
    fn open(&mut self, container: Container) -> Result<(), Flaw> {
        if self.depth >= self.depth_max {
            return Err(Flaw::TooDeep);
        }
        let bit = 1 << self.depth;
        match container {
            Container::Object => {
                self.objects |= bit;
                self.levels[self.depth] = self.keys.open();
            }
            Container::Array => self.objects &= !bit,
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        self.at += 1;
        self.space();
        Ok(())
    }

    #[inline(always)]
    fn close_object(&mut self) -> Result<(), Flaw> {
        self.depth -= 1;
        if self.keys.close(self.levels[self.depth], self.bytes) { Err(Flaw::DuplicateKey) } else { Ok(()) }
    }

    /// Reads a key of an object nobody knows, with its colon.
    #[inline(always)]
    fn key(&mut self) -> Result<(), Flaw> {
        let start = self.at + 1;
        let escaped = self.key_text()?;
        self.remember(start, escaped)?;
        self.colon()
    }

    /// Takes the key that began at `start` and has just ended into the search for duplicates.
    #[inline(always)]
    fn remember(&mut self, start: usize, escaped: bool) -> Result<(), Flaw> {
        let end = self.at - 1;
        let level = &mut self.levels[self.depth - 1];
        let duplicate = if escaped {
            let text = unescape(&self.text[start..end]).ok_or(Flaw::LoneSurrogate)?;
            self.keys.push_unescaped(level, self.bytes, text.as_bytes())
        } else {
            self.keys.push(level, self.bytes, start, end)
        };
        if duplicate { Err(Flaw::DuplicateKey) } else { Ok(()) }
    }
}

#[derive(Clone, Copy)]
enum Container {
    Object,
    Array,
}
