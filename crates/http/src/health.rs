// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with a server's recorders, for `/healthz`: one is quarantined,
//! or work of the GPU does not come to its end. A span that is open is the
//! host's to end: however old, it says nothing of the GPU.

use std::time::Duration;

use metrale_telemetry::snapshot::{OldestSpanSnapshot, RecorderSnapshot};

/// A line for each trouble; none where all is well. A closed span may wait for
/// `limit`.
pub(crate) fn troubles(recorders: &[RecorderSnapshot], limit: Duration) -> Vec<String> {
    recorders
        .iter()
        .flat_map(|recorder| {
            let of = format!("recorder {:?} of {}", recorder.label, recorder.gpu);
            let stopped = recorder.health.quarantined;
            let stopped = stopped.map(|status| format!("quarantined by status {status}: {of}"));
            let stuck = recorder.oldest.iter().filter_map(|span| stuck(span, limit));
            let stuck: Vec<_> = stuck.map(|span| format!("{span}: {of}")).collect();
            stopped.into_iter().chain(stuck)
        })
        .collect()
}

fn stuck(span: &OldestSpanSnapshot, limit: Duration) -> Option<String> {
    let age = Duration::from_nanos(span.age_ns.filter(|_| !span.is_open)?);
    (age > limit).then(|| {
        let name = span.name.as_deref().unwrap_or("(no name)");
        let stream = span.stream.unwrap_or_default();
        let (ring, seconds) = (&span.ring, age.as_secs_f64());
        format!("{ring}: {name:?} on stream {stream:#x} has waited for {seconds:.1} s")
    })
}

#[cfg(test)]
mod tests {
    use super::troubles;
    use metrale_telemetry::snapshot::{OldestSpanSnapshot, RecorderSnapshot};
    use std::time::Duration;

    fn span(name: Option<&str>, is_open: bool, age_ns: Option<u64>) -> OldestSpanSnapshot {
        let mut span = OldestSpanSnapshot::default();
        span.ring = "kernels".to_owned();
        span.name = name.map(str::to_owned);
        span.stream = (!is_open).then_some(0x2a);
        span.is_open = is_open;
        span.age_ns = age_ns;
        span
    }

    fn recorder(label: &str, oldest: Vec<OldestSpanSnapshot>) -> RecorderSnapshot {
        let mut recorder = RecorderSnapshot::default();
        recorder.label = label.to_owned();
        recorder.gpu = "GPU-7".to_owned();
        recorder.oldest = oldest;
        recorder
    }

    #[test]
    fn a_closed_span_may_wait_for_so_long_and_an_open_one_for_ever() {
        const LIMIT: u64 = 30_000_000_000;
        let found = |span| troubles(&[recorder("0", vec![span])], Duration::from_nanos(LIMIT));
        for well in [
            span(Some("gemm"), false, None),
            span(Some("gemm"), false, Some(LIMIT)),
            span(Some("gemm"), true, Some(u64::MAX)),
        ] {
            assert!(found(well.clone()).is_empty(), "{well:?}");
        }
        assert_eq!(
            found(span(Some("gemm"), false, Some(LIMIT + 200_000_000))),
            ["kernels: \"gemm\" on stream 0x2a has waited for 30.2 s: recorder \"0\" of GPU-7"]
        );
        // A name is the application's, and stays on its line.
        let named = found(span(Some("a\nb"), false, Some(LIMIT + 1)));
        assert!(named[0].starts_with(r#"kernels: "a\nb" on"#), "{named:?}");
        let nameless = found(span(None, false, Some(LIMIT + 1)));
        assert!(nameless[0].contains("\"(no name)\""), "{nameless:?}");
    }

    #[test]
    fn every_trouble_of_every_recorder_is_told() {
        let stuck = || span(Some("gemm"), false, Some(2_000_000_000));
        let mut stopped = recorder("1", vec![span(None, true, Some(9)), stuck()]);
        stopped.health.quarantined = Some(700);
        let recorders = [recorder("0", vec![]), stopped, recorder("2", vec![stuck()])];
        let found = troubles(&recorders, Duration::from_secs(1));
        let starts =
            ["quarantined by status 700: recorder \"1\"", "kernels: \"gemm\"", "kernels: \"gemm\""];
        assert_eq!(found.len(), starts.len(), "{found:?}");
        for (line, start) in found.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
        assert!(found[1].contains("\"1\"") && found[2].contains("\"2\""));
    }
}
