//! A text that was read: its known fields by name.

use std::cell::Cell;
use std::fmt;

use super::field::Field;
use super::scan::Scanner;
use super::shape::{SLOTS_MAX, Shape};
use super::text::next_special;
use super::value::Value;
use super::{FieldError, FieldFault, Malformed};
use crate::limits::{FRAME_BYTES_MAX, FRAME_DEPTH_MAX};

/// How long and how deep a text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes. Never more than 2 GiB, whatever is set here.
    pub bytes: usize,
    /// Deepest nesting; the outer object is level 1. Never more than 64, whatever is set here.
    pub depth: usize,
}

impl Limits {
    /// A frame's: 524,288 bytes, 64 levels.
    pub const FRAME: Self = Self { bytes: FRAME_BYTES_MAX, depth: FRAME_DEPTH_MAX };
}

/// One strict JSON object, with slices of its text for the fields that its shape names.
pub struct Document<'a> {
    shape: &'static Shape,
    pub(super) text: &'a str,
    pub(super) slots: [Value; SLOTS_MAX],
    twins: bool,
    /// The slot behind the one that was read last: fields are mostly read in the shape's order.
    likely: Cell<usize>,
}

// The text may hold secrets or business data.
impl fmt::Debug for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.text.len())
    }
}

impl<'a> Document<'a> {
    /// Reads a text that must be one object and nothing else but white space.
    ///
    /// Everything that does not depend on a field's meaning is checked here. What a field must be is
    /// checked by the [`Field`]'s methods, case twins by [`Self::case_twins`].
    ///
    /// # Errors
    /// [`Malformed`] for a text that is not one strict JSON object. [`Flaw::TooDeep`](super::Flaw) with
    /// a pointer means that the value of that field is what is nested too deep.
    pub fn parse(text: &'a str, shape: &'static Shape, limits: Limits) -> Result<Self, Malformed> {
        let malformed = |flaw, at, trail: &[&str]| {
            let pointer = trail.iter().rev().flat_map(|name| ["/", name]).collect();
            Malformed { flaw, at, pointer }
        };
        let mut scanner = Scanner::new(text, limits.bytes, limits.depth).map_err(|flaw| malformed(flaw, 0, &[]))?;
        let mut slots = [Value::ABSENT; SLOTS_MAX];
        let read = scanner.shaped(shape, &mut slots).and_then(|_| scanner.end());
        match read {
            Ok(()) => Ok(Self { shape, text, slots, twins: scanner.twins, likely: Cell::new(0) }),
            Err(flaw) => Err(malformed(flaw, scanner.at, &scanner.trail)),
        }
    }

    /// The outer object.
    #[must_use]
    pub fn root(&self) -> Object<'_, 'a> {
        Object { document: self, shape: self.shape, first: 0 }
    }

    /// Known keys that another key differs from only in ASCII case: each is an error
    /// (events-v1.md section 2). The pointer names the known key.
    #[must_use]
    pub fn case_twins(&self) -> Vec<FieldError> {
        if !self.twins {
            return Vec::new();
        }
        let twins = self.slots.iter().enumerate().filter(|(_, value)| value.twin);
        twins.map(|(slot, _)| self.error(slot, FieldFault::CaseTwin)).collect()
    }

    #[cold]
    pub(super) fn error(&self, slot: usize, fault: FieldFault) -> FieldError {
        FieldError { pointer: self.shape.pointer(slot), fault }
    }
}

/// The value of the key `name` where it is the first of the text's object and a string, both without escapes.
///
/// A hint that costs no pass: nothing has been checked, and a text of another form just gives none.
pub(crate) fn leading_string<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let after = |text: &'a str, token: &str| {
        let space = text.bytes().take_while(|c| matches!(c, b' ' | b'\t' | b'\n' | b'\r')).count();
        text[space..].strip_prefix(token)
    };
    let key = after(after(text, "{")?, "\"")?;
    let value = after(after(key.strip_prefix(name)?.strip_prefix('"')?, ":")?, "\"")?;
    let inside = &value[..next_special(value.as_bytes(), 0)];
    value[inside.len()..].starts_with('"').then_some(inside)
}

/// An object of a [`Document`] whose keys are known.
#[derive(Debug, Clone, Copy)]
pub struct Object<'d, 'a> {
    pub(super) document: &'d Document<'a>,
    pub(super) shape: &'static Shape,
    pub(super) first: usize,
}

impl<'d, 'a> Object<'d, 'a> {
    /// A field of the object, present or not.
    ///
    /// # Panics
    /// If the object's shape does not name the field: a slip of the caller's, whatever the text says.
    #[must_use]
    #[inline]
    pub fn field(self, name: &'static str) -> Field<'d, 'a> {
        let likely = self.document.likely.get().wrapping_sub(self.first);
        let index = self.shape.index(name, likely).expect("the shape names every field that is read");
        self.document.likely.set(self.first + index + 1);
        Field::new(self, index)
    }

    /// The object below the key `index`, where that has a shape.
    pub(super) fn inner(self, index: usize) -> Option<Self> {
        let shape = self.shape.keys()[index].inner?;
        Some(Object { shape, first: self.first + self.shape.inner_slots(index), ..self })
    }
}
