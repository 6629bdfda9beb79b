// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the name of an annotation says of a step.

use metrale_telemetry::kernel::{LANE_ADMIT, LANE_DECODE, LANE_PREFILL, LANES, StepShape};

use super::shapes::{self, Batch, Counts};

/// The lane of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Work outside every step, and steps that serve no tokens.
    Admit,
    /// A step with prompt tokens.
    Prefill,
    /// A step without.
    Decode,
    /// A lane of the caller's own, by its number among these.
    Own(u8),
}

impl Lane {
    /// The lanes that are always there, in order.
    pub const ALL: [Lane; 3] = [Lane::Admit, Lane::Prefill, Lane::Decode];

    /// The index of the lane in the recorder's lane order.
    pub fn index(self) -> usize {
        match self {
            Lane::Admit => LANE_ADMIT,
            Lane::Prefill => LANE_PREFILL,
            Lane::Decode => LANE_DECODE,
            Lane::Own(number) => LANES.len() + usize::from(number),
        }
    }
}

/// What a step's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The lane, decode where nothing is stated.
    pub lane: Lane,
    /// Whether the name states what kind of tokens the step serves.
    pub states_tokens: bool,
    /// What the step is made of, where the name tells.
    pub shape: Option<StepShape>,
}

/// Names of the caller's own that mark a step.
///
/// A pattern without `*` matches names that begin with it. With `*`, each `*`
/// stands for any text (none, too), and the whole name must match. `=` and a
/// lane after it say what lane such a step is, whatever its name tells.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    patterns: Vec<String>,
    lanes: Vec<String>,
}

/// A pattern and the lane that is stated after it, one of `own` or of those that
/// are always there. What follows the last `=` and is no lane belongs to the
/// pattern.
pub fn pattern_and_lane<'a>(text: &'a str, own: &[String]) -> (&'a str, Option<Lane>) {
    let stated = text
        .rsplit_once('=')
        .and_then(|(pattern, name)| Some((pattern, Some(lane_named(name, own)?))));
    stated.unwrap_or((text, None))
}

fn lane_named(name: &str, own: &[String]) -> Option<Lane> {
    match own.iter().position(|lane| lane == name) {
        Some(number) => u8::try_from(number).ok().map(Lane::Own),
        None => {
            let of_all = LANES.iter().position(|lane| *lane == name)?;
            Some(Lane::ALL[of_all])
        }
    }
}

impl Patterns {
    /// The built-in names and `patterns`, with lanes of the caller's own that
    /// those may state.
    pub fn new(patterns: Vec<String>, lanes: Vec<String>) -> Self {
        Patterns { patterns, lanes }
    }

    /// The names of the caller's own lanes.
    pub fn lanes(&self) -> &[String] {
        &self.lanes
    }

    /// What `name` says, where it is a step's.
    pub fn recognise(&self, name: &[u8]) -> Option<Recognised> {
        let name = String::from_utf8_lossy(name);
        let own = self.patterns.iter();
        let own = own.map(|text| pattern_and_lane(text, &self.lanes));
        let mut own = own.filter(|(pattern, _)| matches(pattern, &name)).peekable();
        let is_own = own.peek().is_some();
        if let Some(lane) = own.find_map(|(_, lane)| lane) {
            return Some(Recognised { lane, states_tokens: true, shape: shapes::shape(&name) });
        }
        self.exported(&name).or_else(|| builtin(&name)).or_else(|| is_own.then(|| counted(&name)))
    }

    /// The `lane[…]` of our own exports.
    fn exported(&self, name: &str) -> Option<Recognised> {
        let lane = name.strip_prefix("lane[")?.strip_suffix(']')?;
        Some(Recognised { lane: lane_named(lane, &self.lanes)?, states_tokens: true, shape: None })
    }
}

/// vLLM's `execute_…`, SGLang's `step[…]` and PyTorch's `ProfilerStep#…`.
fn builtin(name: &str) -> Option<Recognised> {
    if name.starts_with("execute_") {
        return Some(counted(name));
    }
    if let Some(batch) = Batch::of(name) {
        let lane = match batch.mode {
            "IDLE" => Lane::Admit,
            _ if batch.extends() => Lane::Prefill,
            _ => Lane::Decode,
        };
        return Some(Recognised {
            lane,
            states_tokens: !batch.mode.bytes().all(|b| b.is_ascii_digit()),
            shape: shapes::shape(name),
        });
    }
    name.strip_prefix("ProfilerStep#").map(|_| Recognised {
        lane: Lane::Decode,
        states_tokens: false,
        shape: None,
    })
}

/// The lane by whether prompts are counted: sequences, requests or tokens.
fn counted(name: &str) -> Recognised {
    let has_prompts = Counts::of(name).has_prompts();
    let lane = if has_prompts == Some(true) { Lane::Prefill } else { Lane::Decode };
    Recognised { lane, states_tokens: has_prompts.is_some(), shape: shapes::shape(name) }
}

/// Greedy match of `*` patterns, linear in the name for each piece.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return name.starts_with(pattern);
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let tail = pieces.pop().unwrap_or("");
    for piece in pieces {
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    name.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str) -> Option<(Lane, bool)> {
        let found = Patterns::default().recognise(name.as_bytes())?;
        Some((found.lane, found.states_tokens))
    }

    #[test]
    fn names_of_the_field() {
        let decode = "execute_32_context_0(sq0sk0)_generation_32(sq32sk9)";
        assert_eq!(lane(decode), Some((Lane::Decode, true)));
        let prefill = "execute_8192_context_9(sq8155)_generation_37(sq37)";
        assert_eq!(lane(prefill), Some((Lane::Prefill, true)));
        assert_eq!(lane("execute_context_1(512)_generation_0(0)"), Some((Lane::Prefill, true)));
        assert_eq!(lane("step[DECODE bs=32]"), Some((Lane::Decode, true)));
        assert_eq!(lane("step[EXTEND bs=1 toks=512]"), Some((Lane::Prefill, true)));
        assert_eq!(lane("step[ MIXED bs=8 ]"), Some((Lane::Prefill, true)));
        assert_eq!(lane("step[IDLE bs=0]"), Some((Lane::Admit, true)));
        assert_eq!(lane("step[7]"), Some((Lane::Decode, false)));
        assert_eq!(lane("ProfilerStep#101"), Some((Lane::Decode, false)));
        assert_eq!(lane("Optimizer.step#SGD.step"), None);
        assert_eq!(lane("lane[prefill]"), Some((Lane::Prefill, true)));
        assert_eq!(lane("lane[draft]"), None);
        assert_eq!(lane("lane[decode"), None);
    }

    #[test]
    fn own_patterns() {
        let yes = |p: &str, n: &str| {
            assert!(
                Patterns::new(vec![p.into()], Vec::new()).recognise(n.as_bytes()).is_some(),
                "{p} {n}"
            );
        };
        let no = |p: &str, n: &str| {
            assert!(
                Patterns::new(vec![p.into()], Vec::new()).recognise(n.as_bytes()).is_none(),
                "{p} {n}"
            );
        };
        yes("## forward", "## forward ##");
        yes("*forward*", "## forward ##");
        yes("run_*_batch", "run_decode_batch");
        yes("a*b*c", "a-b-b-c");
        no("run_*_batch", "run_decode_batch_2");
        no("forward", "## forward ##");
        no("a*a", "a");
    }

    #[test]
    fn requests_are_read_as_tokens_are() {
        let patterns = Patterns::new(vec!["*step*".into()], Vec::new());
        for (name, lane, stated) in [
            ("[Executor] _forward_step 7: 2 ctx reqs, 5 gen reqs", Lane::Prefill, true),
            ("[Executor] _forward_step 7: 0 ctx reqs, 5 gen reqs", Lane::Decode, true),
            (
                "[Executor] _forward_step 7: 1 ctx reqs, 512 ctx tokens, 0 gen reqs",
                Lane::Prefill,
                true,
            ),
            ("step: 0 prefill tokens, 10 decode tokens", Lane::Decode, true),
            ("step with 3 prompt_tokens", Lane::Prefill, true),
            ("step 3 of 12 gen reqs", Lane::Decode, true),
            ("step 2 ctx switches", Lane::Decode, false),
            ("step x2 ctx reqs", Lane::Decode, false),
            ("step", Lane::Decode, false),
        ] {
            let found = patterns.recognise(name.as_bytes()).expect(name);
            assert_eq!((found.lane, found.states_tokens), (lane, stated), "{name}");
        }
    }

    #[test]
    fn a_pattern_may_state_its_lane() {
        let patterns = Patterns::new(
            [
                "warm*=admit",
                "run",
                "run_prefill=prefill",
                "bs=1",
                "ProfilerStep#1=prefill",
                "propose*=draft",
            ]
            .map(str::to_owned)
            .to_vec(),
            vec!["sample".to_owned(), "draft".to_owned()],
        );
        let found = |name: &str| {
            let found = patterns.recognise(name.as_bytes())?;
            Some((found.lane, found.states_tokens))
        };
        assert_eq!(found("warm-up"), Some((Lane::Admit, true)));
        assert_eq!(found("run 1"), Some((Lane::Decode, false)));
        assert_eq!(found("run_prefill 1"), Some((Lane::Prefill, true)));
        assert_eq!(found("bs=1 x"), Some((Lane::Decode, false)));
        assert_eq!(found("ProfilerStep#1"), Some((Lane::Prefill, true)));
        assert_eq!(found("ProfilerStep#2"), Some((Lane::Decode, false)));
        assert_eq!(found("propose_4"), Some((Lane::Own(1), true)));
        let own = [];
        let stated = |text| pattern_and_lane(text, &own);
        assert_eq!(stated("a=b=decode"), ("a=b", Some(Lane::Decode)));
        assert_eq!(stated("a=decoder"), ("a=decoder", None));
        assert_eq!(stated("a=draft"), ("a=draft", None));
    }
}
