//! One pass over a text: syntax, nesting, duplicate keys, and the slots of a shape.

use super::Flaw;
use super::field::{Kind, Value};
use super::keys::{Keys, TEXT_BYTES_MAX};
use super::shape::Shape;
use super::text::{escape_end, next_special, unescape};
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
    /// For each level, where the keys of its object begin.
    bases: [u32; FRAME_DEPTH_MAX],
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
            bases: [0; FRAME_DEPTH_MAX],
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
    pub(super) fn elements(array: &'a str) -> impl Iterator<Item = Value<'a>> {
        let mut scanner = Self::new(array, TEXT_BYTES_MAX, FRAME_DEPTH_MAX).ok();
        std::iter::from_fn(move || {
            let scanner = scanner.as_mut()?;
            // The opening bracket, or the comma behind an element.
            scanner.next()?;
            scanner.space();
            let element = scanner.value().ok()?;
            scanner.space();
            Some(element)
        })
    }

    /// The value of the first key, where the key is `name` and the value a string, both without escapes.
    pub(super) fn leading_string(&mut self, name: &str) -> Option<&'a str> {
        if !self.eat(b'{') {
            return None;
        }
        self.space();
        let start = self.at + 1;
        if self.key_text().ok()? || self.text.get(start..self.at - 1)? != name {
            return None;
        }
        self.colon().ok()?;
        let start = self.at + 1;
        if self.key_text().ok()? { None } else { self.text.get(start..self.at - 1) }
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<(), Flaw> {
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(Flaw::Trailing) }
    }

    /// Reads one object of a known shape into its slots.
    pub(super) fn shaped(&mut self, shape: &'static Shape, slots: &mut [Value<'a>]) -> Result<Value<'a>, Flaw> {
        let start = self.at;
        match self.peek() {
            Some(b'{') => {}
            None => return Err(Flaw::Truncated),
            Some(_) => return Err(Flaw::NotAnObject),
        }
        let level = self.depth;
        self.deepest = level;
        self.open(Container::Object)?;
        if !self.eat(b'}') {
            self.members(shape, slots)?;
        }
        self.close_object()?;
        Ok(self.cut(start, Kind::Object, false, level))
    }

    /// Reads members up to and with the closing brace.
    fn members(&mut self, shape: &'static Shape, slots: &mut [Value<'a>]) -> Result<(), Flaw> {
        let mut likely = 0;
        let mut deepest = self.depth;
        loop {
            let known = self.known_key(shape, slots, likely)?;
            match known {
                Some(index) => {
                    likely = index + 1;
                    let value = self.known_value(shape, index, slots);
                    // Only a flaw's way out passes here, so its pointer costs good texts nothing.
                    slots[index] = value.inspect_err(|_| self.trail.push(shape.keys()[index].name))?;
                }
                None => drop(self.value()?),
            }
            deepest = deepest.max(self.deepest);
            self.space();
            match self.next() {
                Some(b',') => self.space(),
                Some(b'}') => {
                    self.deepest = deepest;
                    return Ok(());
                }
                Some(_) => return Err(self.back(Flaw::Unexpected)),
                None => return Err(Flaw::Truncated),
            }
        }
    }

    /// Reads a key with its colon. An unknown one is remembered for the search for duplicates; for a
    /// known one its filled slot is memory enough.
    fn known_key(
        &mut self,
        shape: &'static Shape,
        slots: &mut [Value<'a>],
        likely: usize,
    ) -> Result<Option<usize>, Flaw> {
        let start = self.at + 1;
        let escaped = self.key_text()?;
        let end = self.at - 1;
        let unescaped = if escaped { Some(unescape(&self.text[start..end]).ok_or(Flaw::LoneSurrogate)?) } else { None };
        let name = unescaped.as_ref().map_or(&self.bytes[start..end], |text| text.as_bytes());
        let known = shape.find(name, likely);
        match known {
            Some(index) if !slots[index].is_absent() => return Err(Flaw::DuplicateKey),
            Some(_) => {}
            None => {
                if let Some(index) = shape.twin(name) {
                    slots[index].twin = true;
                    self.twins = true;
                }
                match &unescaped {
                    Some(text) => self.keys.push_unescaped(text.as_bytes()),
                    None => self.keys.push(self.bytes, start, end),
                }
            }
        }
        self.colon()?;
        Ok(known)
    }

    fn known_value(&mut self, shape: &'static Shape, index: usize, slots: &mut [Value<'a>]) -> Result<Value<'a>, Flaw> {
        let twin = slots[index].twin;
        let value = match shape.keys()[index].inner {
            Some(inner) if self.peek() == Some(b'{') => {
                let first = shape.inner_slots(index);
                self.shaped(inner, &mut slots[first..first + inner.slots()])
            }
            _ => self.value(),
        };
        value.map(|value| Value { twin, ..value })
    }

    /// Reads any value. Its lone surrogates are kept, everything else is checked.
    pub(super) fn value(&mut self) -> Result<Value<'a>, Flaw> {
        let start = self.at;
        let level = self.depth;
        self.deepest = level;
        let (kind, escaped) = match self.peek() {
            Some(b'{') => self.containers().map(|()| (Kind::Object, false))?,
            Some(b'[') => self.containers().map(|()| (Kind::Array, false))?,
            _ => self.scalar()?,
        };
        Ok(self.cut(start, kind, escaped, level))
    }

    fn cut(&self, start: usize, kind: Kind, escaped: bool, level: usize) -> Value<'a> {
        // At most FRAME_DEPTH_MAX, which fits.
        let levels = (self.deepest - level) as u8;
        Value { raw: &self.text[start..self.at], kind, escaped, levels, twin: false }
    }

    /// Reads a whole object or array without recursion.
    fn containers(&mut self) -> Result<(), Flaw> {
        let outside = self.depth;
        loop {
            match self.peek() {
                Some(b'{') => {
                    self.open(Container::Object)?;
                    if !self.eat(b'}') {
                        self.key()?;
                        continue;
                    }
                    self.close_object()?;
                }
                Some(b'[') => {
                    self.open(Container::Array)?;
                    if !self.eat(b']') {
                        continue;
                    }
                    self.depth -= 1;
                }
                _ => drop(self.scalar()?),
            }
            if self.close_what_ends(outside)? {
                return Ok(());
            }
        }
    }

    /// After a value: closes containers up to the next comma. True when none is open any more.
    fn close_what_ends(&mut self, outside: usize) -> Result<bool, Flaw> {
        while self.depth > outside {
            self.space();
            let in_object = self.objects >> (self.depth - 1) & 1 == 1;
            match self.next() {
                Some(b',') => {
                    self.space();
                    if in_object {
                        self.key()?;
                    }
                    return Ok(false);
                }
                Some(b'}') if in_object => self.close_object()?,
                Some(b']') if !in_object => self.depth -= 1,
                Some(_) => return Err(self.back(Flaw::Unexpected)),
                None => return Err(Flaw::Truncated),
            }
        }
        Ok(true)
    }

    /// Opens a container and goes to the first character inside.
    fn open(&mut self, container: Container) -> Result<(), Flaw> {
        if self.depth == self.depth_max {
            return Err(Flaw::TooDeep);
        }
        let bit = 1 << self.depth;
        match container {
            Container::Object => {
                self.objects |= bit;
                // Fewer keys than bytes, of which there are fewer than 2³¹.
                self.bases[self.depth] = self.keys.len() as u32;
            }
            Container::Array => self.objects &= !bit,
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        self.at += 1;
        self.space();
        Ok(())
    }

    fn close_object(&mut self) -> Result<(), Flaw> {
        self.depth -= 1;
        if self.keys.close(self.bases[self.depth] as usize, self.bytes) { Err(Flaw::DuplicateKey) } else { Ok(()) }
    }

    /// Reads a key of an object nobody knows, with its colon.
    fn key(&mut self) -> Result<(), Flaw> {
        let start = self.at + 1;
        if self.key_text()? {
            let text = unescape(&self.text[start..self.at - 1]).ok_or(Flaw::LoneSurrogate)?;
            self.keys.push_unescaped(text.as_bytes());
        } else {
            self.keys.push(self.bytes, start, self.at - 1);
        }
        self.colon()
    }

    fn key_text(&mut self) -> Result<bool, Flaw> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(_) => Err(Flaw::Unexpected),
            None => Err(Flaw::Truncated),
        }
    }

    fn colon(&mut self) -> Result<(), Flaw> {
        self.space();
        match self.peek() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(Flaw::Unexpected),
            None => return Err(Flaw::Truncated),
        }
        self.space();
        Ok(())
    }

    /// Reads a string, number, boolean or null, and tells whether it is a string with escapes.
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

    fn digits(&mut self) -> Result<(), Flaw> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Flaw::Number) }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<(Kind, bool), Flaw> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok((kind, false))
        } else {
            Err(Flaw::Unexpected)
        }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, c: u8) -> bool {
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }

    /// Steps back onto the character that was one too many.
    fn back(&mut self, flaw: Flaw) -> Flaw {
        self.at -= 1;
        flaw
    }
}

#[derive(Clone, Copy)]
enum Container {
    Object,
    Array,
}
