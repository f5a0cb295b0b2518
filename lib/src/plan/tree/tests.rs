use super::*;

#[test]
fn a_tree_of_one_task_reads() {
    let tree = TaskTree::read(r#"{"nodes":{"T1":{"id":"T1","name":"One"}}}"#).unwrap();
    assert_eq!(tree.order(), [TaskId::new("T1").unwrap()]);
}
