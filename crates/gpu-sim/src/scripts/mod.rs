// SPDX-License-Identifier: MIT OR Apache-2.0
//! What NVIDIA's driver answers, as scripts of calls and expected statuses.
//!
//! The simulator is a claim about a driver that its tests cannot reach. The
//! claim is written down here, apart from the simulator's code: a script runs
//! over any source of driver functions, the simulator's or a real library's,
//! and tells every step that answered something else.
//!
//! A script is text, one step a line: `[@2] verb arguments -> status [value]`.
//! Without an arrow the step is to succeed; `900|901` allows either; `#` begins
//! a comment. Steps run one after another, those marked `@2` on a second
//! thread; both threads are new for each script. A name is bound by the step
//! that makes the object. What a script leaves behind is cleaned up.
//!
//! | step | call |
//! |---|---|
//! | `context` | `cuInit`, retain device 0's primary context, make it current |
//! | `new-context C` / `use C` | `cuCtxCreate_v2` / `cuCtxSetCurrent` (`NULL` for none) |
//! | `stream S blocking\|nonblocking`, `event E timed\|untimed` | create |
//! | `module M spin\|garbage`, `function F M` | `cuModuleLoadData`, `cuModuleGetFunction` of `spin` (`absent` with `!`) |
//! | `launch F S NS` | `cuLaunchKernel` of a kernel that runs for NS ns |
//! | `record E S`, `record-external E S`, `query E`, `elapsed A B`, `sync-event E` | events; `elapsed` may tell `>=NS` |
//! | `wait S E`, `sync-stream S`, `query-stream S`, `sync-context` | waits |
//! | `host S` / `release` | `cuLaunchHostFunc` of a function that returns once all of the script are released |
//! | `begin S MODE`, `end S G`, `capturing S`, `info S`, `mode MODE` | capture; modes `global`, `local`, `relaxed`; `capturing` and `info` tell `none`, `active` or `invalidated`, `mode` the mode before |
//! | `instantiate X G`, `launch-graph X S`, `nodes G` | graphs; `nodes` tells the number |
//! | `graph G`, `clone C G`, `find N M C`, `instantiate-for X G FLAGS` | `cuGraphCreate`, `cuGraphClone`, `cuGraphNodeFindInClone`; instantiation with flags |
//! | `empty N G`, `kernel N G F NS`, `mark N G E`, `wait-node N G E`, `child N G C` | a node; more words are nodes that it comes after |
//! | `depend G A B`, `undepend G A B` | an edge comes or goes; with `programmatic` at the end one of that kind |
//! | `type N`, `roots G`, `edges G`, `list-edges G`, `list-edges-and-data G`, `before N`, `behind N` | told: the type's number, and numbers of nodes and edges |
//! | `node-event N E`, `exec-event X N E`, `exec-kernel X N F NS`, `enable X N`, `disable X N` | changes to a node, and to an executable |
//! | `update X G`, `flags X`, `upload X S`, `destroy-node N` | `update` tells the result's number |
//! | `stream-id S`, `stream-context S`, `alloc P`, `free P` | as named |
//! | `destroy-event E`, `destroy-stream S`, `destroy-graph G`, `destroy-exec X`, `unload M` | destroy |
//! | `pass NS` | lets NS ns go by: advances the simulator, else sleeps |
//!
//! In place of a stream: `NULL`, `LEGACY`, `PER_THREAD`.

mod captures;
#[macro_use]
mod driver;
mod events;
mod graph_steps;
mod graphs;
mod machine;
mod matrix;
mod parse;

use std::borrow::Cow;
use std::ffi::c_void;
use std::fmt;

/// Finds an exported function by name, as [`crate::symbol`] does.
pub type SymbolSource<'a> = dyn Fn(&str) -> Option<*const c_void> + Sync + 'a;

/// A script: see the module's page for the steps.
#[derive(Clone, Debug)]
pub struct Script {
    /// What is claimed, in a few words joined by underscores; unique.
    pub name: Cow<'static, str>,
    /// Whether the script may run on a real driver: it uses no dead handle.
    pub hardware: bool,
    /// Whether nobody may have called `cuInit` in its process before.
    pub own_process: bool,
    /// The steps, one a line.
    pub steps: Cow<'static, str>,
}

/// One that may run on a real driver, whoever else uses it.
const fn script(name: &'static str, steps: &'static str) -> Script {
    Script {
        name: Cow::Borrowed(name),
        hardware: true,
        own_process: false,
        steps: Cow::Borrowed(steps),
    }
}

/// A step that did not answer what the script says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The step's line in the script, from 1.
    pub line: usize,
    /// The call, as written.
    pub call: String,
    /// The status and value, as written; `0` where none is.
    pub expected: String,
    /// What was found instead.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, call, .. } = self;
        write!(f, "line {line}: `{call}`: expected {}, {}", self.expected, self.found)
    }
}

/// All scripts.
#[must_use]
pub fn all() -> Vec<Script> {
    let written = [events::SCRIPTS, captures::SCRIPTS, graphs::SCRIPTS].concat();
    written.into_iter().chain(matrix::scripts()).collect()
}

impl Script {
    /// Runs the script over these driver functions.
    ///
    /// # Errors
    /// Every step that answered something else, that the source has no function
    /// for, or that is no step.
    ///
    /// # Safety
    /// Each function the source gives is the CUDA driver function of that name
    /// (or a `sim_*` function of this crate), and nothing else uses the driver
    /// meanwhile.
    pub unsafe fn run(&self, source: &SymbolSource<'_>) -> Result<(), Vec<Difference>> {
        // SAFETY: this function's contract.
        let driver = unsafe { driver::Calls::new(source) };
        let differences = machine::run(&driver, &self.steps);
        if differences.is_empty() { Ok(()) } else { Err(differences) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Difference, Script, all};

    fn script(steps: &'static str) -> Script {
        super::script("under_test", steps)
    }

    fn run(script: &Script) -> Result<(), Vec<Difference>> {
        // SAFETY: the simulator's own functions; `exclusive` is held.
        unsafe { script.run(&crate::symbol) }
    }

    #[test]
    fn the_simulator_answers_as_the_scripts_say() {
        let mut names = BTreeSet::new();
        for script in all() {
            let _alone = crate::exclusive();
            assert!(names.insert(script.name.clone()), "{} twice", script.name);
            if let Err(differences) = run(&script) {
                let told: Vec<_> = differences.iter().map(ToString::to_string).collect();
                panic!("{}:\n{}", script.name, told.join("\n"));
            }
            if script.hardware {
                let stale = crate::control::stale_handle_uses();
                assert_eq!(stale, 0, "{} uses a dead handle", script.name);
            }
        }
        assert!(names.len() > 18);
    }

    #[test]
    fn a_wrong_status_or_value_or_step_is_told() {
        let _alone = crate::exclusive();
        let wrong = script(
            "context
             stream s blocking
             capturing s -> 0 active
             query NULL
             frobnicate s
             stream t purple
             record nobody s
             query NULL -> 400",
        );
        let differences = run(&wrong).expect_err("differences");
        let lines: Vec<usize> = differences.iter().map(|found| found.line).collect();
        assert_eq!(lines, [3, 4, 5, 6, 7]);
        let told = |at: usize| {
            let Difference { call, expected, found, .. } = &differences[at];
            [call, expected, found].map(String::as_str)
        };
        assert_eq!(told(0), ["capturing s", "0 active", "told none"]);
        assert_eq!(told(1), ["query NULL", "0", "answered 400"]);
    }

    #[test]
    fn a_function_that_the_driver_lacks_is_told() {
        let _alone = crate::exclusive();
        let asks = script("context\nstream s blocking\nstream-id s");
        assert_eq!(run(&asks), Ok(()));
        crate::control::hide_newer_than(11_040);
        let differences = run(&asks).expect_err("no cuStreamGetId in 11.4");
        assert_eq!(differences.len(), 1);
        assert!(differences[0].found.contains("cuStreamGetId"));
    }
}
