// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/metrics`: which format a client wants, and the page in it.

#[cfg(feature = "protobuf")]
use prometheus_client::encoding::prometheus_protobuf;
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;

/// The format of a page of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Classic and native histograms.
    #[cfg(feature = "protobuf")]
    Protobuf,
    OpenMetrics,
    Text,
}

impl Format {
    /// The one that the client wants most; of equals the first.
    pub(crate) fn accepted(accept: &str) -> Self {
        let mut best = (Format::Text, 0.0);
        for media in accept.split(',') {
            let mut parts = media.split(';').map(str::trim);
            let format = match parts.next() {
                #[cfg(feature = "protobuf")]
                Some("application/vnd.google.protobuf")
                    if media.contains("io.prometheus.client.MetricFamily")
                        && media.contains("delimited") =>
                {
                    Format::Protobuf
                }
                Some("application/openmetrics-text") => Format::OpenMetrics,
                Some("text/plain" | "text/*" | "*/*") => Format::Text,
                _ => continue,
            };
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            if weight > best.1 {
                best = (format, weight);
            }
        }
        best.0
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            #[cfg(feature = "protobuf")]
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => prometheus_text::CONTENT_TYPE,
        }
    }

    pub(crate) fn page(self, registry: &Registry) -> Option<Vec<u8>> {
        let mut page = String::new();
        match self {
            #[cfg(feature = "protobuf")]
            Format::Protobuf => return prometheus_protobuf::encode_to_vec(registry).ok(),
            Format::OpenMetrics => text::encode(&mut page, registry).ok()?,
            Format::Text => prometheus_text::encode(&mut page, registry).ok()?,
        }
        Some(page.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn the_format_is_the_one_that_the_client_wants_most() {
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        // Without the feature the next best of what the client takes.
        let protobuf_or = |other| {
            #[cfg(feature = "protobuf")]
            let other = [other, Format::Protobuf][1];
            other
        };
        let open = "application/openmetrics-text;version=1.0.0";
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html", Format::Text),
            (&format!("{open},text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), Format::OpenMetrics),
            (&format!("{protobuf},{open};q=0.8,*/*;q=0.2"), protobuf_or(Format::OpenMetrics)),
            (&format!("{protobuf};q=0.3, {open}; q=0.2, text/plain;q=0.9"), Format::Text),
            ("application/vnd.google.protobuf;encoding=text", Format::Text),
            (&format!("{open};q=x,text/plain;q=0"), Format::Text),
            (&format!("{open};q=NaN,;;,,q=1"), Format::Text),
        ] {
            assert_eq!(Format::accepted(accept), expected, "{accept}");
        }
    }
}
