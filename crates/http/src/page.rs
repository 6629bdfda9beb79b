// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page at `/`: put together from its parts as the crate is built, so that
//! it is one file, and asks nobody else for anything.

/// What a browser lets it do: run what is in it, and ask the server it is from.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; \
     style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'self'";

/// All of it.
pub(crate) const PAGE: &str = include_str!("../page/page.html");
