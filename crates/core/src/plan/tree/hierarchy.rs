//! The hierarchy of nodes.

/// The hierarchy walked once, parents before children: containment is then a comparison of numbers.
pub(super) struct Hierarchy {
    /// The step each node was entered at: its place in structural order.
    pub entered: Vec<usize>,
    /// The first step after everything below it.
    left: Vec<usize>,
    parents: Vec<Option<usize>>,
    walk: Vec<usize>,
}

impl Hierarchy {
    pub fn new(roots: &[usize], parents: &[Option<usize>], children: &[Vec<usize>]) -> Self {
        let mut walk = Vec::with_capacity(parents.len());
        let mut open: Vec<usize> = roots.iter().rev().copied().collect();
        while let Some(node) = open.pop() {
            walk.push(node);
            open.extend(children[node].iter().rev());
        }
        let mut entered = vec![0; parents.len()];
        let mut left = vec![0; parents.len()];
        for (step, node) in walk.iter().enumerate() {
            entered[*node] = step;
            left[*node] = step + 1;
        }
        for node in walk.iter().rev() {
            if let Some(parent) = parents[*node] {
                left[parent] = left[parent].max(left[*node]);
            }
        }
        Self { entered, left, parents: parents.to_vec(), walk }
    }

    pub fn holds(&self, outer: usize, inner: usize) -> bool {
        outer != inner && (self.entered[outer]..self.left[outer]).contains(&self.entered[inner])
    }

    /// For each node, where in `order` the first and the last of the leaves below it are.
    pub fn span(&self, order: &[usize]) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
        let mut first = vec![None; self.parents.len()];
        let mut last = vec![None; self.parents.len()];
        for (position, leaf) in order.iter().enumerate() {
            first[*leaf] = Some(position);
            last[*leaf] = Some(position);
        }
        for &node in self.walk.iter().rev() {
            if let Some(parent) = self.parents[node] {
                first[parent] = [first[parent], first[node]].into_iter().flatten().min();
                last[parent] = [last[parent], last[node]].into_iter().flatten().max();
            }
        }
        (first, last)
    }
}
