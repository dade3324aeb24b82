//! The limit of work for one call, which all of its parts share.

use std::cell::Cell;
use std::rc::Rc;

use crate::Tool;
use crate::rule::Rule;
use crate::rules::RuleList;
use crate::tools::Part;

/// The limit of work for one call. A unit is up to 30 instructions of an optimised build, so all of it is less than 50 ms.
pub(crate) const MAX_WORK: usize = 5_000_000;
/// The work of a comparison with a rule, besides the bytes.
const RULE: usize = 50;
/// The bytes of a name that are searched in one unit.
const SEARCHED: usize = 16;

/// The units of work that a call may still take.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    pub(crate) fn new(units: usize) -> Self {
        Self(Cell::new(units))
    }

    /// Takes units. Returns nothing if fewer are left: then none are left.
    pub(crate) fn take(&self, units: usize) -> Option<()> {
        let left = self.0.get().checked_sub(units);
        self.0.set(left.unwrap_or_default());
        left.map(|_| ())
    }

    pub(crate) fn left(&self) -> usize {
        self.0.get()
    }
}

/// The work that the parts of a call may still take together, and what they have in common.
pub(crate) struct Work<'p> {
    pub(crate) budget: Rc<Budget>,
    /// The rules of each list that the name of the tool leads to.
    named: Vec<(&'p RuleList, Rc<[usize]>)>,
    /// The work of a comparison with the part.
    weight: usize,
}

impl<'p> Work<'p> {
    pub(crate) fn new() -> Self {
        Self { budget: Rc::new(Budget::new(MAX_WORK)), named: Vec::new(), weight: 0 }
    }

    /// Returns the places of the rules that can match a part, unless finding them takes too much work.
    pub(crate) fn candidates(&mut self, rules: &'p RuleList, tool: Tool<'_>, part: &Part) -> Option<Vec<usize>> {
        let known = self.named.iter().find(|(list, _)| std::ptr::eq(*list, rules));
        let named = match known.map(|(_, named)| Rc::clone(named)) {
            Some(named) => named,
            None => {
                let (named, steps) = rules.named(tool);
                self.budget.take(steps)?;
                let named: Rc<[usize]> = named.into();
                self.named.push((rules, Rc::clone(&named)));
                named
            }
        };
        let (found, steps) = rules.candidates(tool, part, &named);
        self.budget.take(found.len().saturating_add(steps).saturating_add(RULE))?;
        self.weight = part.weight().saturating_add(RULE);
        Some(found)
    }

    /// Returns a rule that is compared with the part of the candidates, unless the comparison takes too much work. Globs of the
    /// part take more, for what is compared of them.
    pub(crate) fn spend(&mut self, rules: &'p RuleList, at: usize, tool: Tool<'_>) -> Option<&'p Rule> {
        let rule = &rules.rules[at];
        let name = if rule.mcp().is_some() { tool.plain.len() / SEARCHED } else { 0 };
        self.budget.take(self.weight.saturating_add(name))?;
        Some(rule)
    }
}
