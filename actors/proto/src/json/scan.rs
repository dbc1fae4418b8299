//! One pass over a text: syntax, nesting, duplicate keys, and the slots of a shape.

use super::Flaw;
use super::keys::{Keys, Level, TEXT_BYTES_MAX};
use super::shape::Shape;
use super::text::{escape_end, next_special, same_bytes, unescape};
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

    /// Reads one object of a known shape into its slots.
    pub(super) fn shaped(&mut self, shape: &'static Shape, slots: &mut [Value]) -> Result<(), Flaw> {
        match self.peek() {
            Some(b'{') => {}
            None => return Err(Flaw::Truncated),
            Some(_) => return Err(Flaw::NotAnObject),
        }
        self.open(Container::Object)?;
        if !self.eat(b'}') {
            self.members(shape, slots)?;
        }
        self.close_object()
    }

    /// Reads members up to and with the closing brace.
    fn members(&mut self, shape: &'static Shape, slots: &mut [Value]) -> Result<(), Flaw> {
        let mut likely = 0;
        let mut deepest = self.depth;
        loop {
            if self.plain_string(shape, likely, slots) {
                likely += 1;
            } else if let Some(index) = self.known_key(shape, slots, likely)? {
                likely = index + 1;
                // Only a flaw's way out passes here, so its pointer costs good texts nothing.
                self.known_value(shape, index, slots).inspect_err(|_| self.trail.push(shape.keys()[index].name))?;
                deepest = deepest.max(self.deepest);
            } else {
                self.skip()?;
                deepest = deepest.max(self.deepest);
            }
            match self.token() {
                Some(b',') => {
                    self.at += 1;
                    self.space();
                }
                Some(b'}') => {
                    self.at += 1;
                    self.deepest = deepest;
                    return Ok(());
                }
                Some(_) => return Err(Flaw::Unexpected),
                None => return Err(Flaw::Truncated),
            }
        }
    }

    /// Reads `"name":"text"` where the key that is expected next and a string, both without escapes,
    /// come just so: most of a frame, at half the cost of the general way. Else nothing has been read.
    #[inline(always)]
    fn plain_string(&mut self, shape: &'static Shape, likely: usize, slots: &mut [Value]) -> bool {
        let Some(key) = shape.keys().get(likely) else { return false };
        let quote = self.at + key.name.len() + 3;
        match self.bytes.get(self.at..=quote) {
            Some([b'"', name @ .., b'"', b':', b'"']) if same_bytes(name, key.name.as_bytes()) => {}
            _ => return false,
        }
        let end = next_special(self.bytes, quote + 1);
        let slot = &mut slots[likely];
        // A second one is found, and told, by the general way.
        if self.bytes.get(end) != Some(&b'"') || slot.kind != Kind::Absent {
            return false;
        }
        self.at = end + 1;
        slot.start = quote as u32;
        slot.end = self.at as u32;
        slot.kind = Kind::String;
        true
    }

    /// Reads a key with its colon. An unknown one is remembered for the search for duplicates; for a
    /// known one its filled slot is memory enough.
    fn known_key(&mut self, shape: &'static Shape, slots: &mut [Value], likely: usize) -> Result<Option<usize>, Flaw> {
        let start = self.at + 1;
        let escaped = self.key_text()?;
        let end = self.at - 1;
        let unescaped = if escaped { Some(unescape(&self.text[start..end]).ok_or(Flaw::LoneSurrogate)?) } else { None };
        let name = unescaped.as_ref().map_or(&self.bytes[start..end], |text| text.as_bytes());
        let known = shape.find(name, likely);
        match known {
            Some(index) if !matches!(slots[index].kind, Kind::Absent) => return Err(Flaw::DuplicateKey),
            Some(_) => {}
            None => {
                if let Some(index) = shape.twin(name) {
                    slots[index].twin = true;
                    self.twins = true;
                }
                self.remember(start, escaped)?;
            }
        }
        self.colon()?;
        Ok(known)
    }

    #[inline(always)]
    fn known_value(&mut self, shape: &'static Shape, index: usize, slots: &mut [Value]) -> Result<(), Flaw> {
        let start = self.at;
        let level = self.depth;
        let (kind, escaped) = match shape.keys()[index].inner {
            Some(inner) if self.peek() == Some(b'{') => {
                let first = shape.inner_slots(index);
                self.deepest = level;
                self.shaped(inner, &mut slots[first..first + inner.slots()])?;
                (Kind::Object, false)
            }
            _ => self.skip()?,
        };
        // Field by field: a slot that is copied as a whole right after it was written stalls the store buffer.
        self.fill(&mut slots[index], start, level, kind, escaped);
        Ok(())
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

    #[inline(always)]
    fn key_text(&mut self) -> Result<bool, Flaw> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(_) => Err(Flaw::Unexpected),
            None => Err(Flaw::Truncated),
        }
    }

    #[inline(always)]
    fn colon(&mut self) -> Result<(), Flaw> {
        match self.token() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(Flaw::Unexpected),
            None => return Err(Flaw::Truncated),
        }
        self.space();
        Ok(())
    }

    /// Reads a string, number, boolean or null, and tells whether it is a string with escapes.
    #[inline(always)]
    fn scalar(&mut self) -> Result<(Kind, bool), Flaw> {
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
    fn string(&mut self) -> Result<bool, Flaw> {
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
    fn number(&mut self) -> Result<(), Flaw> {
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
    fn digits(&mut self) -> Result<(), Flaw> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Flaw::Number) }
    }

    #[inline(always)]
    fn word(&mut self, word: &str, kind: Kind) -> Result<(Kind, bool), Flaw> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok((kind, false))
        } else {
            Err(Flaw::Unexpected)
        }
    }

    #[inline(always)]
    fn space(&mut self) {
        self.token();
    }

    /// Skips white space and shows what comes.
    #[inline(always)]
    fn token(&mut self) -> Option<u8> {
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
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline(always)]
    fn eat(&mut self, c: u8) -> bool {
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }
}

#[derive(Clone, Copy)]
enum Container {
    Object,
    Array,
}
