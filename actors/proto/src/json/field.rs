//! A field's value, read as what it must be.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::str::FromStr;

use zeroize::Zeroize as _;

use super::scan::Scanner;
use super::value::{Kind, Value};
use super::{Document, FieldError, FieldFault, Object, RawJson};
use crate::scalar::ScalarError;

/// A field of a known object. Every method but the tests refuses an absent one as missing.
#[derive(Debug, Clone, Copy)]
pub struct Field<'d, 'a> {
    object: Object<'d, 'a>,
    index: usize,
}

impl<'d, 'a> Field<'d, 'a> {
    #[inline(always)]
    pub(super) const fn new(object: Object<'d, 'a>, index: usize) -> Self {
        Self { object, index }
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
        self.value().raw(self.document().text)
    }

    /// An error that says what this field must be, for rules of the caller's own.
    #[must_use]
    #[cold]
    pub fn must_be(self, expected: impl Into<Cow<'static, str>>) -> FieldError {
        self.document().error(self.slot(), FieldFault::Expected(expected.into()))
    }

    /// The field as a scalar that is written as a string.
    ///
    /// # Errors
    /// If it is missing, no string, or not what the scalar's type accepts.
    pub fn parse<T: FromStr<Err = ScalarError>>(self) -> Result<T, FieldError> {
        if let Some(Cow::Borrowed(plain)) = self.value().text(self.document().text) {
            return plain.parse().map_err(|error: ScalarError| self.must_be(error.expected));
        }
        self.parse_unescaped()
    }

    /// The rare ways: escapes, and everything that is no string.
    #[cold]
    fn parse_unescaped<T: FromStr<Err = ScalarError>>(self) -> Result<T, FieldError> {
        let mut text = self.text("a string").map_err(|error| self.sharpen::<T>(error))?.into_owned();
        let parsed = text.parse().map_err(|error: ScalarError| self.must_be(error.expected));
        // It may be a secret.
        text.zeroize();
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
        let raw = value.raw(self.document().text);
        let digits = value.kind == Kind::Number && raw.bytes().all(|c| c.is_ascii_digit());
        let number = raw.parse().ok().filter(|number| digits && range.contains(number));
        number.ok_or_else(|| self.must_be(format!("an integer from {} to {}", range.start(), range.end())))
    }

    /// The field as `true` or `false`.
    ///
    /// # Errors
    /// If it is missing or anything else.
    pub fn boolean(self) -> Result<bool, FieldError> {
        match self.present()?.raw(self.document().text) {
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
        Ok(self.object.inner(self.index).expect("a key that is read as an object has a shape"))
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
        let array = value.raw(self.document().text);
        for (index, element) in Scanner::elements(array).enumerate() {
            if index == *count.end() {
                return Err(self.must_be(expected()));
            }
            let read = element.text(array).ok_or(ScalarError::new("a string")).and_then(|text| text.parse());
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
        Ok(RawJson::from_checked(value.raw(self.document().text)))
    }

    /// The field's text after unescaping.
    pub(crate) fn text(self, expected: &'static str) -> Result<Cow<'a, str>, FieldError> {
        self.present()?.text(self.document().text).ok_or_else(|| self.must_be(expected))
    }

    const fn document(self) -> &'d Document<'a> {
        self.object.document
    }

    const fn slot(self) -> usize {
        self.object.first + self.index
    }

    #[inline(always)]
    fn value(self) -> Value {
        self.document().slots[self.slot()]
    }

    #[inline(always)]
    fn present(self) -> Result<Value, FieldError> {
        let value = self.value();
        if value.kind == Kind::Absent {
            Err(self.document().error(self.slot(), FieldFault::Missing))
        } else {
            Ok(value)
        }
    }

    /// Says what the scalar's type expects, learnt from the empty text, where the field is there and no string.
    fn sharpen<T: FromStr<Err = ScalarError>>(self, error: FieldError) -> FieldError {
        match (&error.fault, "".parse::<T>()) {
            (FieldFault::Expected(_), Err(scalar)) => self.must_be(scalar.expected),
            _ => error,
        }
    }
}
