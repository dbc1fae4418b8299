//! A field's value, read as what it must be.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::str::FromStr;

use zeroize::Zeroize as _;

use super::scan::Scanner;
use super::shape::Shape;
use super::text::unescape;
use super::{Document, FieldError, FieldFault, Object, RawJson};
use crate::scalar::ScalarError;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The key is not there.
    Absent,
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// A slot: the slice of the text that a known key's value is.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) raw: &'a str,
    pub(super) kind: Kind,
    /// Whether it is a string with escapes.
    pub(super) escaped: bool,
    /// Levels of nesting inside the value: 0 for a scalar.
    pub(super) levels: u8,
    /// Whether another key differs from this one only in case.
    pub(super) twin: bool,
}

impl Value<'_> {
    pub(super) const ABSENT: Self = Self { raw: "", kind: Kind::Absent, escaped: false, levels: 0, twin: false };

    pub(super) const fn is_absent(&self) -> bool {
        matches!(self.kind, Kind::Absent)
    }
}

// The text may be a secret or business data.
impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {} bytes", self.kind, self.raw.len())
    }
}

/// A field of a known object. Every method but the tests refuses an absent one as missing.
#[derive(Debug, Clone, Copy)]
pub struct Field<'d, 'a> {
    document: &'d Document<'a>,
    slot: usize,
    /// The shape of the object below, and its first slot.
    inner: Option<(&'static Shape, usize)>,
}

impl<'d, 'a> Field<'d, 'a> {
    pub(super) const fn new(document: &'d Document<'a>, slot: usize, inner: Option<(&'static Shape, usize)>) -> Self {
        Self { document, slot, inner }
    }

    /// What the field holds.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.value().kind
    }

    /// The field, unless its key is absent. For optional fields; a `null` is still there.
    #[must_use]
    pub fn if_present(self) -> Option<Self> {
        (self.kind() != Kind::Absent).then_some(self)
    }

    /// The field, unless it is absent or `null`.
    #[must_use]
    pub fn unless_null(self) -> Option<Self> {
        (!matches!(self.kind(), Kind::Absent | Kind::Null)).then_some(self)
    }

    /// The field, which must be there.
    ///
    /// # Errors
    /// If it is missing.
    pub fn required(self) -> Result<Self, FieldError> {
        self.present().map(|_| self)
    }

    /// The value's bytes as they came; empty for an absent one.
    #[must_use]
    pub fn raw(self) -> &'a str {
        self.value().raw
    }

    /// An error that says what this field must be, for rules of the caller's own.
    #[must_use]
    pub fn must_be(self, expected: impl Into<Cow<'static, str>>) -> FieldError {
        self.document.error(self.slot, FieldFault::Expected(expected.into()))
    }

    /// The field as a scalar that is written as a string.
    ///
    /// # Errors
    /// If it is missing, no string, or not what the scalar's type accepts.
    pub fn parse<T: FromStr<Err = ScalarError>>(self) -> Result<T, FieldError> {
        let text = match self.text("a string") {
            Ok(text) => text,
            Err(error) => return Err(self.sharpen::<T>(error)),
        };
        let parsed = text.parse().map_err(|error: ScalarError| self.must_be(error.expected));
        if let Cow::Owned(mut unescaped) = text {
            // It may be a secret.
            unescaped.zeroize();
        }
        parsed
    }

    /// The field as text of so many characters.
    ///
    /// # Errors
    /// If it is missing, no string, has a lone surrogate, or is too short or too long.
    pub fn string(self, characters: RangeInclusive<usize>) -> Result<String, FieldError> {
        let (least, most) = (*characters.start(), *characters.end());
        let expected = || match (least, most) {
            (0, usize::MAX) => Cow::Borrowed("a string"),
            (least, usize::MAX) => Cow::Owned(format!("a string of at least {least} characters")),
            (least, most) => Cow::Owned(format!("a string of {least} to {most} characters")),
        };
        let text = self.text("a string").map_err(|error| match error.fault {
            FieldFault::Missing => error,
            _ => self.must_be(expected()),
        })?;
        let bounded = characters != (0..=usize::MAX);
        if bounded && !characters.contains(&text.chars().count()) {
            return Err(self.must_be(expected()));
        }
        Ok(text.into_owned())
    }

    /// The field as an integer of digits only: no sign, fraction or exponent.
    ///
    /// # Errors
    /// If it is missing, anything else, or out of the range.
    pub fn integer(self, range: RangeInclusive<u64>) -> Result<u64, FieldError> {
        let value = self.present()?;
        let digits = value.kind == Kind::Number && value.raw.bytes().all(|c| c.is_ascii_digit());
        let number = value.raw.parse().ok().filter(|number| digits && range.contains(number));
        number.ok_or_else(|| self.must_be(format!("an integer from {} to {}", range.start(), range.end())))
    }

    /// The field as `true` or `false`.
    ///
    /// # Errors
    /// If it is missing or anything else.
    pub fn boolean(self) -> Result<bool, FieldError> {
        match self.present()?.raw {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.must_be("true or false")),
        }
    }

    /// The field as an object of the shape that [`Key::object`](super::Key::object) gave it.
    ///
    /// # Errors
    /// If it is missing or no object.
    ///
    /// # Panics
    /// If the field's key has no shape: a slip of the caller's, whatever the text says.
    pub fn object(self) -> Result<Object<'d, 'a>, FieldError> {
        if self.present()?.kind != Kind::Object {
            return Err(self.must_be("an object"));
        }
        let (shape, first) = self.inner.expect("a key that is read as an object has a shape");
        Ok(Object { document: self.document, shape, first })
    }

    /// The field as a list of scalars that are written as strings.
    ///
    /// # Errors
    /// If it is missing, no array, too short or too long; or the first bad element, whose index ends the pointer.
    pub fn list<T: FromStr<Err = ScalarError>>(self, count: RangeInclusive<usize>) -> Result<Vec<T>, FieldError> {
        let expected = || format!("an array of {} to {} strings", count.start(), count.end());
        let value = self.present()?;
        if value.kind != Kind::Array {
            return Err(self.must_be(expected()));
        }
        let mut elements = Vec::new();
        for (index, element) in Scanner::elements(value.raw).enumerate() {
            if index == *count.end() {
                return Err(self.must_be(expected()));
            }
            let read = element.text().ok_or(ScalarError::new("a string")).and_then(|text| text.parse());
            elements.push(read.map_err(|error| {
                let pointer = format!("{}/{index}", self.must_be("").pointer);
                FieldError::expected(pointer, error.expected)
            })?);
        }
        if elements.len() < *count.start() { Err(self.must_be(expected())) } else { Ok(elements) }
    }

    /// The field as opaque JSON, byte for byte, `null` included.
    ///
    /// # Errors
    /// If it is missing or has more than `depth` levels.
    pub fn opaque(self, depth: usize) -> Result<RawJson, FieldError> {
        let value = self.present()?;
        if usize::from(value.levels) > depth {
            return Err(self.must_be(format!("json of at most {depth} levels")));
        }
        Ok(RawJson::from_checked(value.raw.to_owned()))
    }

    /// The field's text after unescaping.
    pub(crate) fn text(self, expected: &'static str) -> Result<Cow<'a, str>, FieldError> {
        self.present()?.text().ok_or_else(|| self.must_be(expected))
    }

    fn value(self) -> Value<'a> {
        self.document.slots[self.slot]
    }

    fn present(self) -> Result<Value<'a>, FieldError> {
        let value = self.value();
        if value.is_absent() { Err(self.document.error(self.slot, FieldFault::Missing)) } else { Ok(value) }
    }

    /// Says what the scalar's type expects, learnt from the empty text, where the field is there and no string.
    fn sharpen<T: FromStr<Err = ScalarError>>(self, error: FieldError) -> FieldError {
        match (&error.fault, "".parse::<T>()) {
            (FieldFault::Expected(_), Err(scalar)) => self.must_be(scalar.expected),
            _ => error,
        }
    }
}

impl<'a> Value<'a> {
    /// The text of a string after unescaping; `None` for another kind or a lone surrogate.
    pub(super) fn text(&self) -> Option<Cow<'a, str>> {
        if self.kind != Kind::String {
            return None;
        }
        let inside = &self.raw[1..self.raw.len() - 1];
        if self.escaped { unescape(inside) } else { Some(Cow::Borrowed(inside)) }
    }
}
