//! Rows as the client wants them: JSON up to a limit, CSV and Arrow as streams that are never held as a whole.

mod arrow_stream;
mod csv;
mod json;
mod parts;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, VARY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use self::parts::body_of;
use crate::fault::Fault;
use crate::source::Source;

/// A format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Objects, at most [`json::ROWS_MOST`].
    Json,
    /// With a header, all rows.
    Csv,
    /// The streaming format of Arrow IPC, all rows.
    Arrow,
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }

    /// The first format that the headers `Accept` name and that there is; JSON if they name none.
    pub(crate) fn wanted<'a>(
        accept: impl IntoIterator<Item = &'a HeaderValue>,
    ) -> Result<Self, Fault> {
        let mut accept = accept.into_iter().peekable();
        if accept.peek().is_none() {
            return Ok(Self::Json);
        }
        let texts = accept.filter_map(|value| value.to_str().ok());
        let mut ranges = texts.flat_map(|text| text.split(','));
        let found = ranges.find_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            // "q=0" means that it is not wanted.
            let is_refused = parts.any(|part| {
                let weight = part.strip_prefix("q=");
                weight.is_some_and(|weight| weight.parse::<f64>() == Ok(0.0))
            });
            match kind.as_str() {
                _ if is_refused => None,
                "application/json" | "application/*" | "*/*" => Some(Self::Json),
                "text/csv" | "text/*" => Some(Self::Csv),
                "application/vnd.apache.arrow.stream" => Some(Self::Arrow),
                _ => None,
            }
        });
        found.ok_or_else(|| {
            let message = "rows are there as application/json, text/csv and application/vnd.apache.arrow.stream";
            Fault::new(StatusCode::NOT_ACCEPTABLE, message)
        })
    }
}

/// The answer with the rows of `source`.
pub(crate) async fn of(format: Format, source: Source) -> Result<Response, Fault> {
    let body = match format {
        Format::Json => Body::from(json::text(source).await?),
        Format::Csv => body_of(csv::Csv::new(source)?),
        Format::Arrow => body_of(arrow_stream::ArrowStream::new(source)?),
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(format.name())),
        (VARY, HeaderValue::from_static("accept")),
    ];
    Ok((headers, body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_format_is_taken() {
        let wanted = |texts: &[&'static str]| {
            let values: Vec<_> = texts
                .iter()
                .map(|text| HeaderValue::from_static(text))
                .collect();
            Format::wanted(&values).ok()
        };
        assert_eq!(wanted(&[]), Some(Format::Json));
        assert_eq!(wanted(&["*/*"]), Some(Format::Json));
        assert_eq!(
            wanted(&["text/html, text/csv;q=0.5, */*"]),
            Some(Format::Csv)
        );
        assert_eq!(wanted(&["text/html", "Text/CSV"]), Some(Format::Csv));
        assert_eq!(
            wanted(&["application/vnd.apache.arrow.stream"]),
            Some(Format::Arrow)
        );
        assert_eq!(
            wanted(&["text/csv;q=0, application/json"]),
            Some(Format::Json)
        );
        assert_eq!(wanted(&["text/html"]), None);
    }
}
