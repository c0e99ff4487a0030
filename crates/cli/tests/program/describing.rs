//! completions, man.

use crate::{Scratch, names};

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = scratch.run(&["completions", shell]).expect_status(0);
        assert!(done.text().contains("checkpoint") && done.err.is_empty(), "{shell}");
        for hidden in ["demo-writer", "experiment"] {
            assert!(!done.text().contains(hidden), "{shell}: {hidden}");
        }
    }
    scratch.run(&["completions", "cmd"]).expect_failure(2, "possible values");
}

#[test]
fn every_command_has_a_manual_page() {
    let scratch = Scratch::new();
    let page = scratch.run(&["man"]).expect_status(0);
    assert!(page.text().contains(".TH esker 1"), "{page:?}");
    std::fs::create_dir(scratch.path("man1")).unwrap();
    scratch.run(&["man", "--dir", "man1"]).expect("");
    let pages = names(&scratch.path("man1"));
    for page in ["esker.1", "esker-get.1", "esker-pmem-create.1"] {
        assert!(pages.iter().any(|name| name == page), "{pages:?}");
    }
    scratch.run(&["man", "--dir", "nowhere"]).expect_failure(2, "nowhere");
}
