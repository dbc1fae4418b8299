//! Objects whose keys are known: their values' places go into slots.

use super::{Container, Scanner};
use crate::json::Flaw;
use crate::json::shape::Shape;
use crate::json::text::{next_special, same_bytes, unescape};
use crate::json::value::{Kind, Value};

impl Scanner<'_> {
    /// Reads one object of a known shape into its slots.
    pub(in crate::json) fn shaped(&mut self, shape: &'static Shape, slots: &mut [Value]) -> Result<(), Flaw> {
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
}
