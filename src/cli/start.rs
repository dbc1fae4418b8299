//! Where in the log a subscription begins.

use std::str::FromStr;

use perilune_proto::scalar::{Sequence, parse_u64};

/// A place in the platform's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Start {
    /// Behind the last event.
    Latest,
    /// At the first event that is kept.
    Earliest,
    /// At the first event whose sequence is at least this.
    Sequence(Sequence),
}

impl FromStr for Start {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "latest" => Ok(Self::Latest),
            "earliest" => Ok(Self::Earliest),
            _ => parse_u64(text)
                .map(|sequence| Self::Sequence(Sequence(sequence)))
                .map_err(|_| "must be latest, earliest or an event's sequence"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_written_as_the_api_reads_it() {
        for (text, json) in [
            ("latest", r#""latest""#),
            ("earliest", r#""earliest""#),
            ("18446744073709551615", r#"{"sequence":"18446744073709551615"}"#),
        ] {
            let start = text.parse::<Start>().expect(text);
            assert_eq!(serde_json::to_string(&start).expect("json"), json);
        }
        assert!("01".parse::<Start>().is_err());
    }
}
