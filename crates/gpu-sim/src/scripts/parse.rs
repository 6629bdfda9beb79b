// SPDX-License-Identifier: MIT OR Apache-2.0
//! A script's lines, taken apart.

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Line in the script, from 1.
    pub(super) line: usize,
    pub(super) text: &'a str,
    pub(super) is_on_second_thread: bool,
    pub(super) verb: &'a str,
    pub(super) arguments: Vec<&'a str>,
    /// Any of these statuses will do.
    pub(super) statuses: Vec<u32>,
    /// What the call is to tell besides.
    pub(super) value: Option<&'a str>,
}

/// The steps of a script; `Err` for a line that is none.
pub(super) fn steps(text: &str) -> impl Iterator<Item = (usize, &str, Option<Line<'_>>)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let text = line.split('#').next().unwrap_or("").trim();
        (!text.is_empty()).then(|| (index + 1, text, step(index + 1, text)))
    })
}

fn step(line: usize, text: &str) -> Option<Line<'_>> {
    let (call, expected) = match text.split_once("->") {
        Some((call, expected)) => (call, expected),
        None => (text, "0"),
    };
    let mut words = call.split_whitespace().peekable();
    let is_on_second_thread = words.next_if_eq(&"@2").is_some();
    let verb = words.next()?;
    let mut expected = expected.split_whitespace();
    let statuses = expected.next()?.split('|').map(str::parse);
    let step = Line {
        line,
        text,
        is_on_second_thread,
        verb,
        arguments: words.collect(),
        statuses: statuses.collect::<Result<_, _>>().ok()?,
        value: expected.next(),
    };
    expected.next().is_none().then_some(step)
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn a_line_is_thread_verb_arguments_and_expectation() {
        let text = "\n# nothing\n@2 end s g -> 901|904 none # why\nquery e\nquery e -> many\n";
        let found: Vec<_> = steps(text).collect();
        assert_eq!(found.len(), 3);
        let first = found[0].2.as_ref().expect("a step");
        assert_eq!((first.line, first.is_on_second_thread), (3, true));
        assert_eq!((first.verb, &first.arguments[..]), ("end", &["s", "g"][..]));
        assert_eq!((&first.statuses[..], first.value), (&[901, 904][..], Some("none")));
        let second = found[1].2.as_ref().expect("a step");
        assert_eq!((&second.statuses[..], second.value), (&[0][..], None));
        assert_eq!(found[2].2, None);
    }
}
