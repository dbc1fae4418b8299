//! Query parameters, strictly: an unknown one, a repeated one and a bad value are refused (422).

use std::ops::RangeInclusive;

use actix_web::HttpRequest;
use actix_web::web::Query;

use crate::server::problem::{Code, FieldError, Problem};

/// The parameters of one request.
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
    errors: Vec<FieldError>,
}

impl Parameters {
    /// Reads the query string; only parameters of `known` names may be there, each once.
    pub(crate) fn read(request: &HttpRequest, known: &[&str]) -> Result<Self, Problem> {
        let pairs = Query::<Vec<(String, String)>>::from_query(request.query_string())
            .map_err(|_| Problem::new(Code::Malformed, "the query string is malformed"))?
            .into_inner();
        let mut errors = Vec::new();
        for (place, (name, _)) in pairs.iter().enumerate() {
            let reason = if !known.contains(&name.as_str()) {
                "is not a parameter of this resource"
            } else if pairs[..place].iter().any(|(earlier, _)| earlier == name) {
                "must be given once"
            } else {
                continue;
            };
            errors.push(FieldError { pointer: pointer(name), reason: reason.into() });
        }
        Ok(Self { pairs, errors })
    }

    /// Refuses any parameter.
    pub(crate) fn none(request: &HttpRequest) -> Result<(), Problem> {
        Self::read(request, &[])?.finish()
    }

    /// An integer of digits only, or the default where it is absent.
    pub(crate) fn integer(&mut self, name: &'static str, range: RangeInclusive<u32>, default: u32) -> u32 {
        let reason = format!("must be an integer from {} to {}", range.start(), range.end());
        let read = self.parsed(name, reason, |text| {
            let canonical = text.bytes().all(|c| c.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
            text.parse().ok().filter(|number| canonical && range.contains(number))
        });
        read.unwrap_or(default)
    }

    /// A value that `read` accepts, `None` where it is absent or refused.
    pub(crate) fn parsed<T>(
        &mut self,
        name: &'static str,
        reason: impl Into<std::borrow::Cow<'static, str>>,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let (_, text) = self.pairs.iter().find(|(known, _)| known == name)?;
        let value = read(text);
        if value.is_none() {
            self.errors.push(FieldError { pointer: pointer(name), reason: reason.into() });
        }
        value
    }

    /// Refuses the request with every bad parameter.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        if self.errors.is_empty() { Ok(()) } else { Err(Problem::invalid(self.errors)) }
    }
}

/// A parameter's name as a JSON pointer: `~` and `/` escaped, cut to a decent length.
fn pointer(name: &str) -> String {
    let name: String = name.chars().take(64).collect();
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn limit(uri: &str) -> Result<u32, Vec<String>> {
        let request = TestRequest::with_uri(uri).to_http_request();
        let mut parameters = Parameters::read(&request, &["limit", "after"]).expect("well formed");
        let limit = parameters.integer("limit", 1..=1_000, 100);
        let pointers = parameters.errors.iter().map(|error| error.pointer.clone()).collect();
        parameters.finish().map(|()| limit).map_err(|_| pointers)
    }

    #[test]
    fn an_absent_parameter_has_its_default() {
        assert_eq!(limit("/x"), Ok(100));
        assert_eq!(limit("/x?after=a"), Ok(100));
    }

    #[test]
    fn only_plain_integers_in_range_are_taken() {
        assert_eq!(limit("/x?limit=1000"), Ok(1_000));
        for bad in ["", "0", "1001", "+1", "-1", "1.0", "01", " 1", "1e2", "99999999999999999999", "null"] {
            assert_eq!(
                limit(&format!("/x?limit={}", bad.replace('+', "%2B").replace(' ', "%20"))),
                Err(vec!["/limit".to_owned()]),
                "{bad}"
            );
        }
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused_by_name() {
        assert_eq!(limit("/x?limit=1&limit=2"), Err(vec!["/limit".to_owned()]));
        assert_eq!(limit("/x?Limit=1&a/b=1"), Err(vec!["/Limit".to_owned(), "/a~1b".to_owned()]));
    }
}
