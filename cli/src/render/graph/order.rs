//! Which edges lead back, and an order of the nodes in which all others lead forward.

/// The order of a directed graph.
#[derive(Debug, PartialEq, Eq)]
pub struct Order {
    /// Every node once; an edge that does not lead back leads to a later one.
    pub nodes: Vec<usize>,
    /// For every edge whether it leads back to a node it can be reached from.
    pub back: Vec<bool>,
}

/// Orders `count` nodes depth first, beginning with `first`, then with nodes nothing leads to, then with the others.
pub fn order(count: usize, edges: &[(usize, usize)], first: Option<usize>) -> Order {
    let mut outgoing = vec![Vec::new(); count];
    let mut has_incoming = vec![false; count];
    for (edge, (from, to)) in edges.iter().enumerate() {
        outgoing[*from].push(edge);
        has_incoming[*to] |= from != to;
    }
    let sources = (0..count).filter(|node| !has_incoming[*node]);
    let (roots, back) = back_edges(first.into_iter().chain(sources).chain(0..count), edges, &outgoing);
    // In the order found above the last branch would come first, which is not how anyone reads a pipeline.
    let mut done = vec![false; count];
    let mut nodes = Vec::with_capacity(count);
    for root in roots.into_iter().rev() {
        let mut path = vec![(root, outgoing[root].len())];
        while let Some((node, unseen)) = path.last_mut() {
            let node = *node;
            if done[node] {
                path.pop();
            } else if *unseen == 0 {
                done[node] = true;
                nodes.push(node);
                path.pop();
            } else {
                *unseen -= 1;
                let edge = outgoing[node][*unseen];
                if !back[edge] && !done[edges[edge].1] {
                    path.push((edges[edge].1, outgoing[edges[edge].1].len()));
                }
            }
        }
    }
    nodes.reverse();
    Order { nodes, back }
}

/// The edges that lead to a node on the path they were found on, self loops included: without them there is no cycle.
/// And those of `candidates` no earlier one leads to.
fn back_edges(
    candidates: impl Iterator<Item = usize>,
    edges: &[(usize, usize)],
    outgoing: &[Vec<usize>],
) -> (Vec<usize>, Vec<bool>) {
    #[derive(Clone, Copy, PartialEq)]
    enum VisitState {
        Not,
        OnPath,
        Done,
    }
    let mut back = vec![false; edges.len()];
    let mut seen = vec![VisitState::Not; outgoing.len()];
    let mut roots = Vec::new();
    for root in candidates {
        if seen[root] != VisitState::Not {
            continue;
        }
        roots.push(root);
        seen[root] = VisitState::OnPath;
        let mut path = vec![(root, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(edge) = outgoing[*node].get(*next) else {
                seen[*node] = VisitState::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let to = edges[*edge].1;
            match seen[to] {
                VisitState::Not => {
                    seen[to] = VisitState::OnPath;
                    path.push((to, 0));
                }
                VisitState::OnPath => back[*edge] = true,
                VisitState::Done => {}
            }
        }
    }
    (roots, back)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_keeps_its_order_and_its_retry_leads_back() {
        let found = order(4, &[(0, 1), (1, 2), (2, 1), (2, 3)], Some(0));
        assert_eq!(found, Order { nodes: vec![0, 1, 2, 3], back: vec![false, false, true, false] });
    }

    #[test]
    fn branches_keep_their_order_and_joins_come_after() {
        let found = order(4, &[(0, 2), (0, 1), (1, 3), (2, 3)], Some(0));
        assert_eq!(found.nodes, [0, 2, 1, 3]);
    }

    #[test]
    fn the_first_node_comes_first_and_sources_before_cycles() {
        assert_eq!(order(3, &[(0, 1), (1, 0)], Some(2)).nodes[0], 2);
        let found = order(4, &[(0, 1), (1, 0), (3, 0)], Some(2));
        assert_eq!((found.nodes, found.back), (vec![2, 3, 0, 1], vec![false, true, false]));
    }

    #[test]
    fn self_loops_lead_back_and_empty_graphs_have_no_order() {
        assert_eq!(order(1, &[(0, 0)], None), Order { nodes: vec![0], back: vec![true] });
        assert_eq!(order(0, &[], None), Order { nodes: vec![], back: vec![] });
    }

    #[test]
    fn a_long_chain_does_not_use_up_the_stack() {
        let edges: Vec<_> = (1..200_000).map(|node| (node - 1, node)).collect();
        assert_eq!(order(200_000, &edges, None).nodes, (0..200_000).collect::<Vec<_>>());
    }

    #[test]
    fn every_edge_but_the_back_edges_leads_forward() {
        for seed in 0..200_usize {
            let count = 1 + seed % 13;
            let edges: Vec<_> = (0..seed % 40).map(|n| ((n * 7 + seed) % count, (n * n * 3 + seed) % count)).collect();
            let found = order(count, &edges, None);
            let mut place = vec![usize::MAX; count];
            found.nodes.iter().enumerate().for_each(|(at, node)| place[*node] = at);
            assert_eq!(found.nodes.len(), count);
            for ((from, to), back) in edges.iter().zip(&found.back) {
                assert!(*back || place[*from] < place[*to], "{count} {edges:?} {found:?}");
            }
        }
    }
}
