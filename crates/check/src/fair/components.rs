//! Strongly connected components with a cycle in them (Tarjan 1972), without recursion: schedules are long.

use super::graph::Graph;

const NEW: u32 = u32::MAX;

struct Search {
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    next: u32,
}

/// The components of the states that `belongs` chooses, each sorted; those without a cycle are left out.
pub(super) fn of(graph: &Graph, belongs: impl Fn(u32) -> bool) -> Vec<Vec<u32>> {
    let states = graph.states() as usize;
    let mut search = Search {
        index: vec![NEW; states],
        low: vec![0; states],
        on_stack: vec![false; states],
        stack: Vec::new(),
        next: 0,
    };
    let mut components = Vec::new();
    for root in (0..graph.states()).filter(|&state| belongs(state)) {
        if search.index[root as usize] == NEW {
            visit(graph, &belongs, &mut search, root, &mut components);
        }
    }
    components
}

fn visit(
    graph: &Graph,
    belongs: &impl Fn(u32) -> bool,
    search: &mut Search,
    root: u32,
    components: &mut Vec<Vec<u32>>,
) {
    let mut path = vec![(root, 0)];
    search.enter(root);
    while let Some(&mut (state, ref mut tried)) = path.last_mut() {
        if let Some(edge) = graph.edges(state).get(*tried) {
            *tried += 1;
            let to = edge.to as usize;
            if !belongs(edge.to) {
                continue;
            }
            if search.index[to] == NEW {
                search.enter(edge.to);
                path.push((edge.to, 0));
            } else if search.on_stack[to] {
                search.low[state as usize] = search.low[state as usize].min(search.index[to]);
            }
            continue;
        }
        path.pop();
        if let Some(&(before, _)) = path.last() {
            search.low[before as usize] = search.low[before as usize].min(search.low[state as usize]);
        }
        if search.low[state as usize] == search.index[state as usize] {
            let component = search.leave(state);
            if component.len() > 1 || graph.edges(state).iter().any(|edge| edge.to == state) {
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

    /// Takes the component of `root` off the stack.
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
