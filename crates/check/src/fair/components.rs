//! Strongly connected components that contain a cycle (Tarjan 1972), without recursion, because
//! schedules are long.

const NEW: u32 = u32::MAX;

struct Search {
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    next: u32,
}

/// The components of those states 0, 1, .. for which `belongs` holds, each sorted; components
/// without a cycle are left out. `edges` returns the successors of a state.
pub(crate) fn of<I: Iterator<Item = u32>>(
    states: u32,
    edges: impl Fn(u32) -> I,
    belongs: impl Fn(u32) -> bool,
) -> Vec<Vec<u32>> {
    let size = states as usize;
    let mut search = Search {
        index: vec![NEW; size],
        low: vec![0; size],
        on_stack: vec![false; size],
        stack: Vec::new(),
        next: 0,
    };
    let mut components = Vec::new();
    for root in (0..states).filter(|&state| belongs(state)) {
        if search.index[root as usize] == NEW {
            visit(&edges, &belongs, &mut search, root, &mut components);
        }
    }
    components
}

fn visit<I: Iterator<Item = u32>>(
    edges: &impl Fn(u32) -> I,
    belongs: &impl Fn(u32) -> bool,
    search: &mut Search,
    root: u32,
    components: &mut Vec<Vec<u32>>,
) {
    let mut path = vec![(root, edges(root))];
    search.enter(root);
    while let Some(&mut (state, ref mut rest)) = path.last_mut() {
        if let Some(next) = rest.next() {
            let to = next as usize;
            if !belongs(next) {
                continue;
            }
            if search.index[to] == NEW {
                search.enter(next);
                path.push((next, edges(next)));
            } else if search.on_stack[to] {
                search.low[state as usize] = search.low[state as usize].min(search.index[to]);
            }
            continue;
        }
        path.pop();
        if let Some(&(before, _)) = path.last() {
            search.low[before as usize] =
                search.low[before as usize].min(search.low[state as usize]);
        }
        if search.low[state as usize] == search.index[state as usize] {
            let component = search.leave(state);
            if component.len() > 1 || edges(state).any(|to| to == state) {
                components.push(component);
            }
        }
    }
}

impl Search {
    fn enter(&mut self, state: u32) {
        self.index[state as usize] = self.next;
        self.low[state as usize] = self.next;
        self.next += 1;
        self.stack.push(state);
        self.on_stack[state as usize] = true;
    }

    /// Pops the component of `root` off the stack.
    fn leave(&mut self, root: u32) -> Vec<u32> {
        let place = self.stack.iter().rposition(|&state| state == root).expect("it was entered");
        let mut component = self.stack.split_off(place);
        for &state in &component {
            self.on_stack[state as usize] = false;
        }
        component.sort_unstable();
        component
    }
}
