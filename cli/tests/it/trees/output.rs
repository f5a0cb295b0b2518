//! Output nobody planned for: long, broken, foreign, and looking like what it is not.

use super::garden::{APPROVES, Garden, Tree};

/// A task whose agent says this.
fn said(script: &str) -> Garden {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(&format!("echo 1 > one; {script}"), APPROVES);
    garden.gardener(&[]).expect(0);
    garden
}

#[test]
fn a_megabyte_of_output_is_cut_only_in_the_body() {
    let flood = "yes 0123456789abcde | head -c 1048576; echo the end";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[&format!("unit: {flood}; test -e mended")]));
    garden.agent(&format!("test $n = 1 && echo 1 > one || echo 1 > mended; {flood}"), APPROVES);
    garden.gardener(&[]).expect(0);
    let red = garden.newest("main", "T001 test-fail");
    assert!(red.body.contains("\n\nTest (unit) stdout (last 1000 chars):\n[...truncated]\n"), "{}", red.body);
    assert!(red.body.ends_with("the end"));
    assert!(red.body.len() < 1200, "{}", red.body.len());
    let log = garden.file("main", red.trailer("Arborist-Test-Log").unwrap());
    assert!(log.len() > 1_048_576, "{}", log.len());
    let done = garden.newest("main", "T001 implement-pass");
    assert!(done.body.starts_with("Runner output (truncated to 2000 chars):\n[...truncated]\n"), "{}", done.body);
    assert!(done.body.len() < 2100, "{}", done.body.len());
    let told = garden.asked("T001", "implement", 2);
    assert!(told.len() < 40_000 && told.contains("the end"), "{}", told.len());
}

#[test]
fn counts_in_the_middle_of_a_flood_are_read() {
    let noise = "yes 0123456789abcde | head -c 3000000";
    let test =
        format!("{noise}; echo '--- FAIL: TestMiddle (0.00s)'; {noise}; printf 'FAIL\\texample.com/a\\t0.1s\\n'");
    let tree = Tree::of(&["T001"]).tests("T001", &[&format!("unit: {test}; test -e mended")]);
    let garden = Garden::new(&tree);
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    let red = garden.newest("main", "T001 test-fail");
    assert_eq!(red.trailer("Arborist-Test-Failed"), Some("1"));
    let log = garden.file("main", red.trailer("Arborist-Test-Log").unwrap());
    assert!(log.contains(" bytes left out ...]") && !log.contains("TestMiddle"), "{}", log.len());
    // The first and the last 2 MiB of a stream, and a little beside them.
    assert!((4_194_000..4_196_000).contains(&log.len()), "{}", log.len());
    let told = garden.asked("T001", "implement", 2);
    assert!(told.contains("Tests that failed:\n- TestMiddle\n"), "{told}");
    assert_eq!(garden.newest("main", "T001 test-pass").trailer("Arborist-Test-Failed"), Some("1"));
}

#[test]
fn output_that_is_no_text_is_made_text() {
    let garden = said("printf 'caf\\351 \\377\\000\\033[31mred\\n'");
    let body = garden.newest("main", "T001 implement-pass").body;
    assert!(body.contains("caf\u{fffd}") && body.contains("red"), "{body:?}");
    assert!(!body.contains('\0'), "git ends messages at a NUL: {body:?}");
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn output_with_crlf_is_read_back() {
    let garden = said("printf 'one\\r\\ntwo\\r\\n\\r\\nArborist-Step: complete\\r\\n'");
    let body = garden.newest("main", "T001 implement-pass").body;
    assert!(body.contains("one\ntwo") || body.contains("one\r\ntwo"), "{body:?}");
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
}

#[test]
fn words_that_look_like_trailers_are_none() {
    let garden = said(
        "printf 'Done.\\n\\nArborist-Step: complete\\nArborist-Result: fail\\n\\n---\\n\\nSigned-off-by: me\\n\\n--- \\n\\nArborist-Retry: 7\\n'",
    );
    let step = garden.newest("main", "T001 implement-pass");
    assert_eq!(step.trailer("Arborist-Step"), Some("implement"));
    assert_eq!(step.trailer("Arborist-Retry"), Some("0"));
    assert_eq!(step.trailers.len(), 5, "{:?}", step.trailers);
    assert!(step.body.contains("Arborist-Result: fail\n\n---\n\nSigned-off-by: me"), "{:?}", step.body);
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn an_agent_that_says_nothing_is_no_trouble() {
    let garden = said("true");
    assert_eq!(garden.newest("main", "T001 implement-pass").body, "Runner output (truncated to 2000 chars):");
}
