// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page at `/`: put together from its parts as the crate is built, so that
//! it is one file, and asks nobody else for anything.

/// What a browser lets it do: run what is in it, and ask the server it is from.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; \
     style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'self'";

macro_rules! parts {
    ($($part:literal),*) => {
        concat!($(include_str!(concat!("../page/", $part))),*)
    };
}

/// All of it.
pub(crate) const PAGE: &str = concat!(
    parts!("head.html"),
    "<!-- uPlot is under this licence:\n",
    parts!("vendor/LICENSE.uPlot"),
    "-->\n<style>\n",
    parts!("vendor/uPlot.min.css", "page.css"),
    "</style>\n",
    parts!("body.html"),
    "<script>",
    parts!("vendor/uPlot.iife.min.js"),
    "</script>\n<script>\n\"use strict\";\n{\n",
    parts!(
        "numbers.js",
        "data.js",
        "dom.js",
        "fills.js",
        "charts.js",
        "gpu.js",
        "lanes.js",
        "steps.js",
        "timeline.js",
        "sound.js",
        "main.js"
    ),
    "}\n</script>\n</body>\n</html>\n"
);

#[cfg(test)]
mod tests {
    use super::PAGE;

    /// What the charts may add to the page.
    const MOST_BYTES: usize = 60_000;

    #[test]
    fn the_charts_are_small() {
        let size = parts!("vendor/uPlot.iife.min.js", "vendor/uPlot.min.css").len();
        assert!(size <= MOST_BYTES, "{size} bytes");
    }

    #[test]
    fn it_names_no_other_place() {
        let ours = PAGE.replace("https://github.com/leeoniya/uPlot", "");
        for other in ["http://", "https://", " src=", "@import", "url("] {
            assert!(!ours.contains(other), "{other}");
        }
    }
}
